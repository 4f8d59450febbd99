package link

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/ask"
)

// frames sends what a fuzzer made up: each line is a frame of JSON, after a dollar sign
// one with a secret, after an exclamation mark bytes as they are. A reader that has left
// ends it.
func frames(c net.Conn, script string) {
	for line := range strings.SplitSeq(script, "\n") {
		var err error
		switch {
		case strings.HasPrefix(line, "$"):
			err = wire.WriteFrame(c, wire.KindSecret, []byte(line[1:]))
		case strings.HasPrefix(line, "!"):
			_, err = io.WriteString(c, line[1:])
		default:
			err = wire.WriteFrame(c, wire.KindJSON, []byte(line))
		}
		if err != nil {
			return
		}
	}
}

// person counts what is shown to them, and what they are asked for.
type person struct {
	mu           sync.Mutex
	shown, most  int
	asked, typed int
}

func (p *person) show(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shown += n
	p.most = max(p.most, p.shown)
}

func (p *person) answer(_ context.Context, q ask.Question) (ask.Answer, error) {
	p.show(1)
	if q.Touch != nil {
		return ask.Answer{Done: func() { p.show(-1) }}, nil
	}
	defer p.show(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked++; q.PIN == nil {
		return ask.Answer{Yes: true}, nil
	}
	p.typed++
	return ask.Answer{PIN: hsm.NewSecret([]byte("123456"))}, nil
}

func (p *person) wait(ask.Wait) (done func()) {
	p.show(1)
	return sync.OnceFunc(func() { p.show(-1) })
}

// FuzzClient: whatever passes for the agent says, the client ends, takes down all that it
// has shown, shows no more than a few things at a time, and sends a PIN only as the answer
// to a prompt for one.
func FuzzClient(f *testing.F) {
	for _, s := range []string{
		`{"ok":true}`, `{"beat":true}` + "\n" + `{"beat":true,"shared":true}` + "\n" + `{"ok":true}`, `{"offered":true}`,
		`{"prompt":{"id":1,"pin":{}}}` + "\n" + `{"done":1}` + "\n" + `{"ok":true}`,
		`{"prompt":{"id":1,"wait":{}}}` + "\n" + `{"prompt":{"id":1,"wait":{}}}`,
		`{"prompt":{"id":1,"touch":{}}}` + "\n" + `{"prompt":{"id":1,"touch":{}}}` + "\n" + `{"done":1}`,
		`{"prompt":{"id":-1,"confirm":{},"pin":{},"touch":{},"wait":{},"reach":true}}`, `{"prompt":{"id":2,"confirm":{}}}`,
		`{"prompt":{"touch":{},"reach":true}}`, `{"prompt":{"id":1,"reach":true}}`,
		`{"error":{"code":"x","message":"y","hint":"z"}}`, "$secret", "!\x00\x00\x00\xffJ", "!\xff\xff\xff\xffJ", "null", `{"done":7}`,
		strings.Repeat(`{"prompt":{"id":1,"touch":{}}}`+"\n", 40),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		ours, theirs := net.Pipe()
		var sent atomic.Int64
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			for {
				frame, err := wire.ReadFrame(theirs)
				if err != nil {
					return
				}
				if frame.Kind == wire.KindSecret {
					sent.Add(1)
				}
			}
		}()
		go func() {
			frames(theirs, script)
			_ = theirs.Close()
		}()
		p := &person{}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var out OK
		err := NewClient(ours, nil).Call(ctx, &Header{Op: "x"}, &out, Options{Prompter: p.answer, Waiting: p.wait})
		_ = ours.Close()
		<-heard
		if ctx.Err() != nil {
			t.Fatalf("it goes on: %v", err)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.shown != 0 || p.most > maxShown+1 {
			t.Errorf("%d prompts are left, %d were shown at a time", p.shown, p.most)
		}
		if int(sent.Load()) > p.typed {
			t.Errorf("%d PINs were typed, %d sent", p.typed, sent.Load())
		}
	})
}

// FuzzServer: whatever a client sends, the server ends with it, and takes for a PIN only
// a secret that follows the answer to its question.
func FuzzServer(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"op":"a"}`, `{"v":1,"op":"a"}` + "\n" + `{"id":1,"secret":true}` + "\n$1234",
		`{"v":1}` + "\n" + `{"id":9,"secret":true}` + "\n$wrong\n" + `{"id":1,"secret":true}` + "\n$right",
		`{}` + "\n" + `{"id":1,"secret":true}` + "\n" + `{}`, "$x", "[]", "null", "{}\n" + `{"id":1,"error":{}}`,
		strings.Repeat("{}\n", 30), "!\x00\x00\x00\x01S",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, script string) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // ends with the connection
		go func() {
			frames(theirs, script)
			_ = theirs.Close()
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		s := NewServer(ctx, ours, nil)
		err := s.Serve(func(Received) error {
			a := NewAsker(s)
			defer a.Close()
			got, err := a.Ask(ctx, ask.Question{PIN: &hsm.PINPrompt{}})
			defer got.PIN.Zero()
			if (err == nil) != (got.PIN != nil) {
				t.Errorf("%v with the PIN %v", err, got.PIN != nil)
			}
			if err == nil && !follows(script, got.PIN.Bytes()) {
				t.Errorf("taken for the PIN: %q", got.PIN.Bytes())
			}
			return s.Answer(OK{true})
		})
		_ = ours.Close()
		if ctx.Err() != nil {
			t.Fatalf("it goes on: %v", err)
		}
		if err != nil && !errors.Is(err, wire.ErrFrame) && !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("unnamed error %v", err)
		}
	})
}

// follows tells whether a script has that secret right after a message that announces one.
func follows(script string, secret []byte) bool {
	lines := strings.Split(script, "\n")
	if strings.Contains(script, "!") { // Bytes after a "!" may be any frames.
		return true
	}
	for i, line := range lines[:len(lines)-1] {
		if strings.Contains(strings.ToLower(line), "secret") && bytes.Equal([]byte(lines[i+1]), append([]byte("$"), secret...)) {
			return true
		}
	}
	return false
}
