//go:build linux

package main

import (
	"context"
	"crypto"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/agent/client"
	"github.com/kubehsm/kubehsm/plugin/agent/link"
	"github.com/kubehsm/kubehsm/plugin/agent/message"
	"github.com/kubehsm/kubehsm/plugin/agent/signing"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/test/adversary/play"
)

func dirs() (home.Dirs, error) { return home.FromEnv(os.Getenv) }

// claiming is a request that names its client, as those of older programs did.
type claiming struct {
	message.SessionRequest
	Client process.ID `json:"client"`
}

// claim asks the agent itself for a session of o.For, which may be another process.
func (a *adversary) claim(ctx context.Context, o play.Order, out *play.Answer) error {
	d, err := dirs()
	if err != nil {
		return err
	}
	conn, err := client.DialSocket(ctx, d.Socket())
	if err != nil {
		return err
	}
	c := link.NewClient(conn, message.Codes())
	defer c.Close() // The agent has answered.
	q := claiming{message.SessionRequest{Header: link.Header{Op: message.OpPrepare}, Enrollment: o.Enrollment,
		Own: o.For == process.This(), Purpose: hsm.Purpose{Command: "kubectl"}}, o.For}
	var answer message.SessionAnswer
	if err := c.Call(ctx, &q, &answer, link.Options{}); err != nil {
		return err
	}
	out.Credential = &play.Credential{Certificate: answer.Session.Certificate, Key: answer.Session.Key}
	a.credential = out.Credential
	return nil
}

// plugin runs the exec plugin as kubectl does: it leaves an attendant where there is
// a terminal.
func (a *adversary) plugin(ctx context.Context, o play.Order, out *play.Answer) error {
	d, err := dirs()
	if err != nil {
		return err
	}
	ep, err := loopback.Setup(d)
	if err != nil {
		return err
	}
	info := fmt.Sprintf(`{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1",`+
		`"spec":{"interactive":true,"cluster":{"server":%q,"certificate-authority-data":%q}}}`, ep.URL(o.Enrollment),
		base64.StdEncoding.EncodeToString(ep.CAPEM))
	cmd := exec.CommandContext(ctx, "kubehsm", "credential", "--enrollment", o.Enrollment)
	cmd.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+info)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("the plugin: %w", err)
	}
	if out.Credential, err = play.FromPlugin(b); err == nil {
		a.credential = out.Credential
	}
	return err
}

// take uses somebody else's credential from now on.
func (a *adversary) take(_ context.Context, o play.Order, _ *play.Answer) error {
	a.credential = o.Credential
	return nil
}

// yes is somebody who allows everything and says that every touch is seen.
type yes struct{ asked chan<- string }

func (y yes) PIN(context.Context, hsm.PINPrompt) (*hsm.Secret, error) { return nil, hsm.ErrCancelled }

func (y yes) Touch(_ context.Context, p hsm.TouchPrompt) (done func()) {
	y.note("touch: " + p.Purpose.Action)
	return func() {}
}

func (y yes) Confirm(_ context.Context, p hsm.ConfirmPrompt) (bool, error) {
	y.note(p.Question + ": " + p.Detail)
	return true, nil
}

func (y yes) note(what string) {
	select {
	case y.asked <- what:
	default: // One note is enough.
	}
}

// attend offers itself for the questions about a process, or with none for all.
func (a *adversary) attend(ctx context.Context, o play.Order, _ *play.Answer) error {
	d, err := dirs()
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, d)
	if err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		told := func() { ready <- nil }
		if o.For.PID == 0 {
			ready <- c.Respond(ctx, yes{a.attending}, told)
			return
		}
		ready <- c.Attend(ctx, o.For, yes{a.attending}, told)
	}()
	return <-ready
}

// sign wants a signature by the key at o.Path over a digest, past the bridge.
func (a *adversary) sign(ctx context.Context, o play.Order, out *play.Answer) error {
	d, err := dirs()
	if err != nil {
		return err
	}
	uri, err := hsm.ParseURI(o.Path)
	if err != nil {
		return err
	}
	digest := sha256.Sum256([]byte(o.Text))
	signature, held, err := signing.Agent{Socket: d.Socket()}.Sign(ctx, uri, digest[:], crypto.SHA256)
	if len(signature) > 0 {
		out.Done = append(out.Done, fmt.Sprintf("a signature of %d bytes, held %t", len(signature), held))
	}
	return err
}
