package message

import (
	"encoding/json"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// TestRequestsOfOlderAgents: an agent of an older program reads what it always read.
func TestRequestsOfOlderAgents(t *testing.T) {
	who := process.ID{PID: 7, Start: 8}
	head := func(op string) link.Header { return link.Header{V: wire.Version, Op: op} }
	for want, r := range map[string]link.Request{
		`{"v":2,"op":"status"}`: &PlainRequest{Header: head(OpStatus)},
		`{"v":2,"op":"lock","beats":true}`: &PlainRequest{
			Header: link.Header{V: wire.Version, Op: OpLock, Beats: true}},
		`{"v":2,"op":"prepare","waits":true,"enrollment":"prod","own":true,"purpose":{"command":"kubectl"}}`: &SessionRequest{
			Header: link.Header{V: wire.Version, Op: OpPrepare, Waits: true}, Enrollment: "prod", Own: true,
			Purpose: hsm.Purpose{Command: "kubectl"}},
		`{"v":2,"op":"attend","client":{"pid":7,"start":8}}`: &AttendRequest{Header: head(OpAttend), Client: who},
		`{"v":2,"op":"front"}`:                               &PlainRequest{Header: head(OpRespond)},
	} {
		b, err := json.Marshal(r)
		if err != nil || string(b) != want {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
	}
}
