package controlplane

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// ports are the loopback ports of a cluster.
type ports struct {
	API     int `json:"api"`
	Manager int `json:"manager"`
	Etcd    int `json:"etcd"`
	Peer    int `json:"peer"`
	Kubelet int `json:"kubelet"`
}

// Free ports are looked for below the range that the kernel gives to outgoing
// connections, so that a server that restarts finds its port again.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// freePorts picks ports that nothing listens on now. api is kept if not 0.
func freePorts(api int) (ports, error) {
	p := ports{API: api}
	taken := map[int]bool{api: true}
	for _, port := range []*int{&p.API, &p.Manager, &p.Etcd, &p.Peer, &p.Kubelet} {
		if *port != 0 {
			continue
		}
		var err error
		if *port, err = freePort(taken); err != nil {
			return p, err
		}
		taken[*port] = true
	}
	return p, nil
}

// freePort picks one that is not taken.
func freePort(taken map[int]bool) (int, error) {
	for range 1000 {
		n := lowestPort + rand.IntN(highestPort-lowestPort)
		if !taken[n] && portFree(n) {
			return n, nil
		}
	}
	return 0, errors.New("no free port on 127.0.0.1")
}

func portFree(port int) bool {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}
