//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// ownPIN is the PIN that the card's owner chooses.
const ownPIN = "73916402"

// touchPrompt begins the line that asks for a touch.
const touchPrompt = "Touch the token"

// onCard runs this program again, where it finds a new YubiKey, a virtual one, in a reader. Its owner takes a moment
// to touch it, so that one can see that it is asked for.
func onCard(args ...string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	touch := func(_ byte, pulled <-chan struct{}) bool {
		select {
		case <-pulled:
			return false
		case <-time.After(time.Second):
			return true
		}
	}
	return vcard.Run([]*vcard.Card{vcard.New(vcard.Config{Touch: touch})}, self, args...)
}

// job makes the moving picture of the main job: from a new YubiKey to a kubectl that works.
func job(ctx context.Context, out string) (err error) {
	dir, err := os.MkdirTemp("", "jane-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return onStage(ctx, dir, lab.Options{Groups: []string{lab.DevelopersGroup, lab.FilersGroup}}, func(l *lab.Lab) error {
		tokens, err := filepath.Glob(filepath.Join(l.Soft.Tokens, "*"))
		if err != nil {
			return err
		}
		for _, token := range tokens { // the card is the only one
			if err := os.RemoveAll(token); err != nil {
				return err
			}
		}
		p := &play{lab: l, out: out}
		return p.job(ctx)
	})
}

// job plays it, on one terminal.
func (p *play) job(ctx context.Context) (err error) {
	s, err := p.startSized(110, 26, "/bin/sh", "-i")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var c cast
	says := func(text string) func(term.Frame) bool {
		return func(f term.Frame) bool { return f.Contains(text) }
	}
	free := func(f term.Frame) bool { // the shell's prompt stands alone again
		lines := f.Crop().Lines()
		return f.CursorX == 2 && lines[len(lines)-1] == "$"
	}
	secret := func() error { return s.TypeSecret(ownPIN + "\r") }
	run := func(command string) func() error { return func() error { return c.types(ctx, s, command) } }
	for _, scene := range []struct {
		what string
		is   func(term.Frame) bool
		long time.Duration
		then func() error
	}{
		{"the shell", free, 800 * time.Millisecond, run("kubehsm enroll")},
		{"the review", says("Begin? [Y/n"), 3 * time.Second, func() error { return s.Type("\r") }},
		{"a new PIN", says("New PIV PIN:"), 1200 * time.Millisecond, secret},
		{"it again", says(question.Repeat), 1200 * time.Millisecond, secret},
		{"the wait for an approver", says("waiting for somebody to approve"), 2 * time.Second, func() error { return p.approve(ctx) }},
		{"the end", free, 3 * time.Second, run("kubectl get namespaces")},
		{"what is there", free, 2 * time.Second, run("kubectl auth can-i create pods")},
		{"what may be done", free, 2 * time.Second, func() error { return nil }},
	} {
		if err := c.until(ctx, s, scene.what, scene.is, scene.long); err != nil {
			return err
		}
		if err := scene.then(); err != nil {
			return err
		}
	}
	if len(s.Shown()) > 0 {
		return errors.New("a PIN was shown: no picture of that")
	}
	svg, err := c.render("jane@laptop")
	if err != nil {
		return err
	}
	return p.write("job", svg)
}

// approve is what the cluster's admin does meanwhile.
func (p *play) approve(ctx context.Context) error {
	admin := p.lab.Cluster.AdminKubeconfig()
	names, err := lab.Succeeded(p.lab.Kubectl(ctx, "--kubeconfig", admin, "get", "csr", "-o", "name"))
	if err != nil {
		return err
	}
	args := append([]string{"--kubeconfig", admin, "certificate", "approve"}, strings.Fields(names)...)
	if _, err := lab.Succeeded(p.lab.Kubectl(ctx, args...)); err != nil {
		return fmt.Errorf("approve: %w", err)
	}
	return nil
}

// onStage runs a play in a lab of its own.
func onStage(ctx context.Context, dir string, o lab.Options, do func(*lab.Lab) error) (err error) {
	if o.Binary, err = lab.Build(ctx, dir); err != nil {
		return err
	}
	if o.Cluster, err = controlplane.Start(ctx, filepath.Join(dir, "c"), controlplane.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := lab.Rights(ctx, o.Cluster); err != nil {
		return err
	}
	home := filepath.Join(dir, "l")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	l, err := lab.New(home, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close(context.WithoutCancel(ctx))) }()
	return do(l)
}
