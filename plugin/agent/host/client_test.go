package host

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
)

// order is what a program is told to do, a line of JSON each: to get a session for
// itself or its parent, or to send a request with the session that it has, or is given.
type order struct {
	Asks, Own    bool
	Session      *message.Session
	Method, Path string
}

// done is what came of it.
type done struct {
	ID      process.ID
	Session message.Session
	Error   string
	Code    int
	Body    string
}

// clientMain is the other process.
func clientMain() {
	d, err := home.FromEnv(os.Getenv)
	var session message.Session
	lines := json.NewEncoder(os.Stdout)
	_ = lines.Encode(done{ID: process.This(), Error: errText(err)}) // a reader that is gone needs no answer
	for orders := json.NewDecoder(os.Stdin); ; {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		if o.Session != nil {
			session = *o.Session
		}
		var out done
		switch {
		case o.Asks:
			var c *client.Client
			if c, err = client.Dial(context.Background(), d); err == nil {
				session, err = c.Prepare(context.Background(),
					client.PrepareRequest{Enrollment: "prod", Own: o.Own, Purpose: hsm.Purpose{Command: "kubectl get pods"}}, nil)
				_ = c.Close() // the agent has answered
			}
			out.Session = session
		default:
			out.Code, out.Body, err = sendBy(d, session, o.Method, o.Path)
		}
		out.Error = errText(err)
		_ = lines.Encode(out)
	}
}

func sendBy(d home.Dirs, s message.Session, method, path string) (int, string, error) {
	ep, err := loopback.Setup(d)
	if err != nil {
		return 0, "", err
	}
	c, err := clientOfSession(ep, s)
	if err != nil {
		return 0, "", err
	}
	req, err := http.NewRequest(method, ep.URL("prod")+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
