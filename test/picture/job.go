//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/ui/present/question"
)

// ownPIN is the PIN that the card's owner chooses.
const ownPIN = "73916402"

// What prompts begin with.
const (
	touchPrompt = "Touch the token"
	pinPrompt   = "PIV PIN ("
)

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

// films plays scenes in a shell and writes the moving picture of them.
func (p *play) films(
	ctx context.Context,
	name string,
	rows int,
	scenes func(*cast, *term.Terminal) []scene,
) (err error) {
	s, err := p.startSized(110, rows, "/bin/sh", "-i")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var c cast
	for _, scene := range scenes(&c, s) {
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
	return p.write(name, c.render("jane@laptop"))
}

// job is the main job: from a new YubiKey to a kubectl that works.
func (p *play) job(ctx context.Context) error {
	return p.films(ctx, "job", 26, func(c *cast, s *term.Terminal) []scene {
		secret := func() error { return s.TypeSecret(ownPIN + "\r") }
		run := func(command string) func() error { return func() error { return c.types(ctx, s, command) } }
		return []scene{
			{"the shell", free, 800 * time.Millisecond, run("kubehsm enroll")},
			{"the review", says("Begin? [Y/n"), 3 * time.Second, func() error { return s.Type("\r") }},
			{"a new PIN", says("New PIV PIN:"), 1200 * time.Millisecond, secret},
			{"it again", says(question.Repeat), 1200 * time.Millisecond, secret},
			{"an approver", says("waiting for somebody to approve"), 2 * time.Second, func() error { return p.approve(ctx) }},
			{"the end", free, 3 * time.Second, run("kubectl get namespaces")},
			{"what is there", free, 2 * time.Second, run("kubectl auth can-i create pods")},
			{"what may be done", free, 2 * time.Second, nil},
		}
	})
}

// kubectl is the first command of the day, and the second.
func (p *play) kubectl(ctx context.Context) error {
	if _, err := lab.Succeeded(p.lab.Kubehsm(ctx, "agent", "stop")); err != nil {
		return err
	}
	return p.films(ctx, "kubectl", 14, func(c *cast, s *term.Terminal) []scene {
		run := func(command string) func() error { return func() error { return c.types(ctx, s, command) } }
		return []scene{
			{"the shell", free, 800 * time.Millisecond, run("kubectl auth whoami")},
			{"the PIN", says(pinPrompt), 3 * time.Second, func() error { return s.TypeSecret(ownPIN + "\r") }},
			{"who it is", free, 2 * time.Second, run("kubectl get namespaces")},
			{"what is there", free, 3 * time.Second, nil},
		}
	})
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
