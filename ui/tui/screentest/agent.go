package screentest

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/plugin/socket"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
)

// Agent has a real agent run over the world's tokens until the test ends.
func (w *World) Agent() {
	w.T.Helper()
	flowtest.Agent(w.T, w.Env)
}

// Told has an agent run until the test ends that tells status and does nothing: what a real
// agent tells differs from run to run. Each responder that is offered to it is sent on
// offered.
func (w *World) Told(status message.Status) (offered <-chan ask.Func) {
	w.T.Helper()
	must.OK(w.T, w.Env.Dirs.Prepare())
	l, err := socket.Listen(w.Env.Dirs.Socket())
	must.OK(w.T, err)
	offers := make(chan ask.Func, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	clients.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			clients.Go(func() { w.tell(ctx, conn, status, offers) })
		}
	})
	w.T.Cleanup(func() {
		cancel()
		if err := l.Close(); err != nil {
			w.T.Error(err)
		}
		clients.Wait()
	})
	return offers
}

// tell serves one client.
func (w *World) tell(ctx context.Context, conn net.Conn, status message.Status, offers chan<- ask.Func) {
	server := link.NewServer(ctx, conn, message.Codes())
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the test is over
	_ = server.Serve(func(r link.Received) error {
		switch r.Op {
		case message.OpStatus:
			return server.Answer(message.StatusAnswer{Status: &status})
		case message.OpRespond: // the responder is offered as long as its connection is open
			if err := server.Offered(); err != nil {
				return err
			}
			select {
			case offers <- link.NewAsker(server).Ask:
			default: // the test takes one offer
			}
			<-server.Context().Done()
			return nil
		}
		return server.Fail(errors.ErrUnsupported)
	}) // a client that goes before it is answered is no failure
	if stop() {
		_ = conn.Close()
	}
}
