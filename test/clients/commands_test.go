//go:build linux

package clients

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
)

// commands is a client that is a new process for each command. What runs on are
// watches, and what forwards for others.
type commands struct {
	events
	*lab.Person
	program string
	mu      sync.Mutex
	running []*exec.Cmd
}

// run is one command; a failure is in its own words.
func (c *commands) run(args ...string) (string, error) {
	res, err := c.Run(c.T.Context(), lab.Run{}, c.program, args...)
	if err == nil && res.Code != 0 {
		err = errors.New(strings.TrimSpace(res.Stderr + res.Stdout))
	}
	return strings.TrimSpace(res.Stdout), err
}

// begin starts a command that runs until the end.
func (c *commands) begin(args ...string) (*bufio.Scanner, error) {
	cmd := exec.Command(c.program, args...)
	cmd.Dir, cmd.Env, cmd.SysProcAttr = c.Dir, c.Env(), &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running = append(c.running, cmd)
	return bufio.NewScanner(out), nil
}

func (c *commands) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range c.running {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group may have ended
		_ = cmd.Wait()                                      // the signal is its end
	}
	c.running = nil
}

// kubectl is what a person types.
type kubectl struct{ *commands }

func newKubectl(p *lab.Person, path string) program {
	return kubectl{&commands{Person: p, program: path}}
}

func (k kubectl) do(verb, arg string) (string, error) {
	switch verb {
	case "list":
		return k.run("get", "configmaps", "-o", "name")
	case "create":
		return k.run("create", "configmap", arg)
	case "exec":
		return k.run("exec", "p", "--", "echo", arg)
	case "watch":
		lines, err := k.begin("get", "configmaps", "--watch", "-o", "name")
		if err != nil {
			return "", err
		}
		go func() {
			for lines.Scan() {
				k.add(strings.TrimPrefix(lines.Text(), "configmap/"))
			}
		}()
		return "", nil
	case "forward":
		address, err := k.listens("port-forward", "p", ":"+arg)
		if err != nil {
			return "", err
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		if _, err := fmt.Fprintln(conn, "through"); err != nil {
			return "", err
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		return strings.TrimSpace(line), err
	case "burst":
		return k.burst(arg)
	}
	return "", fmt.Errorf("kubectl is not told how to %s", verb)
}

var listening = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// listens starts a command that says where it listens.
func (k kubectl) listens(args ...string) (string, error) {
	lines, err := k.begin(args...)
	if err != nil {
		return "", err
	}
	if !lines.Scan() {
		return "", errors.New("kubectl has ended")
	}
	address := listening.FindString(lines.Text())
	go func() {
		for lines.Scan() { // the pipe is not to be full
		}
	}()
	return address, nil
}

// burst sends requests at once through one `kubectl proxy`.
func (k kubectl) burst(n string) (string, error) {
	address, err := k.listens("proxy", "--port=0")
	if err != nil {
		return "", err
	}
	var count int
	if _, err := fmt.Sscan(n, &count); err != nil {
		return "", err
	}
	errs := make(chan error, count)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for range count {
		go func() { errs <- get(client, "http://"+address+"/api/v1/namespaces/default/configmaps") }()
	}
	for range count {
		err = errors.Join(err, <-errs)
	}
	return n, err
}

func get(c *http.Client, url string) error {
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.300s: %w", resp.Status, body, err)
	}
	return nil
}

// helm installs charts, and has no watch of its own to show.
type helm struct {
	*commands
	chart string
}

func newHelm(p *lab.Person, path string) (program, error) {
	chart, err := filepath.Abs("testdata/chart")
	return helm{&commands{Person: p, program: path}, chart}, err
}

func (h helm) do(verb, arg string) (string, error) {
	switch verb {
	case "list":
		return h.run("list", "-o", "json")
	case "create":
		return h.run("install", arg, h.chart)
	case "burst": // the objects of one chart
		if _, err := h.run("install", "many", h.chart, "--set", "count="+arg); err != nil {
			return "", err
		}
		return h.run("uninstall", "many")
	}
	return "", fmt.Errorf("helm is not told how to %s", verb)
}
