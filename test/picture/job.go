//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// ownPIN is the PIN that the card's owner chooses.
const ownPIN = "73916402"

// touchPrompt is what the prompt for a touch begins with.
const touchPrompt = "Touch the token"

// scene is a part of a moving picture: what is waited for, how long that is seen, and what is done then.
type scene struct {
	what string
	is   func(term.Frame) bool
	long time.Duration
	then func() error
}

// says is a screen with that text.
func says(text string) func(term.Frame) bool {
	return func(f term.Frame) bool { return f.Contains(text) }
}

// free is a screen where the shell's prompt stands alone again.
func free(f term.Frame) bool {
	lines := f.Crop().Lines()
	return f.CursorX == 2 && lines[len(lines)-1] == "$"
}

// job films the main job: from a new YubiKey to a kubectl that works.
func (p *play) job(ctx context.Context) (err error) {
	s, err := term.Start(term.Options{Path: "/bin/sh", Args: []string{"-i"}, Dir: p.lab.Dir, Columns: 110, Rows: 26,
		Env: append(p.lab.Env(), "PS1=\x1b[1;32m$\x1b[0m ")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var c cast
	secret := func() error { return s.TypeSecret(ownPIN + "\r") }
	run := func(command string) func() error { return func() error { return c.types(ctx, s, command) } }
	for _, scene := range []scene{
		{"the shell", free, 800 * time.Millisecond, run("kubehsm enroll")},
		{"the review", says("Begin? [Y/n"), 3 * time.Second, func() error { return s.Type("\r") }},
		{"a new PIN", says("New PIV PIN:"), 1200 * time.Millisecond, secret},
		{"it again", says(question.Repeat), 1200 * time.Millisecond, secret},
		{"an approver", says("waiting for somebody to approve"), 2 * time.Second, func() error { return p.approve(ctx) }},
		{"the end", free, 3 * time.Second, run("kubectl get namespaces")},
		{"what is there", free, 2 * time.Second, run("kubectl auth can-i create pods")},
		{"what may be done", free, 2 * time.Second, nil},
	} {
		if err := c.until(ctx, s, scene.what, scene.is, scene.long); err != nil {
			return err
		}
		if scene.then == nil {
			continue
		}
		if err := scene.then(); err != nil {
			return err
		}
	}
	if len(s.Shown()) > 0 {
		return errors.New("a PIN was shown: no picture of that")
	}
	return os.WriteFile(p.out, []byte(c.render("jane@laptop")), 0o644) //nolint:gosec // documentation
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
