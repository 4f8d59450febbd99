//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// guided is the first screen with a new YubiKey: what an enrollment would be.
func (p *play) guided(ctx context.Context) (err error) {
	s, err := p.start(24, p.lab.Binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := p.wait(ctx, s, "enter enroll"); err != nil {
		return err
	}
	return p.take(s, "guided", "kubehsm")
}

// home is the first screen after an enrollment.
func (p *play) home(ctx context.Context) (err error) {
	s, err := p.start(24, p.lab.Binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, drawn := range []string{"ends in", "q quit"} { // the footer comes last
		if err := p.wait(ctx, s, drawn); err != nil {
			return err
		}
	}
	return p.take(s, "home", "kubehsm")
}

// requests are what waits for the cluster's approver, one of them looked at.
func (p *play) requests(ctx context.Context) (err error) {
	for _, who := range [][]string{{"tom", "ops"}, {"mara", lab.DevelopersGroup}} {
		if err := p.file(ctx, who[0], who[1], "--no-attestation"); err != nil {
			return err
		}
	}
	s, err := p.start(26, p.lab.Binary, "--kubeconfig", p.lab.Cluster.AdminKubeconfig())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, step := range []struct{ until, send string }{{"1 Tokens", "3"}, {"2 requests pending", string(term.Enter)},
		{"What the certificate would allow", ""}} {
		if err := p.wait(ctx, s, step.until); err != nil {
			return err
		}
		if err := s.Type(step.send); err != nil {
			return err
		}
	}
	return p.take(s, "requests", "kubehsm")
}

// desk is the help desk's screen, with the tickets that are out.
func (p *play) desk(ctx context.Context) (err error) {
	admin := *p.lab
	admin.Kubeconfig = p.lab.Cluster.AdminKubeconfig()
	if err := errors.Join(p.lab.Cluster.PublishInfo(ctx, p.lab.Cluster.Server()), admin.ApplyRoles(ctx)); err != nil {
		return err
	}
	for _, args := range [][]string{{"--for", "anna", "--group", lab.DevelopersGroup, "--ttl", "8h"},
		{"--for", "ben", "--group", lab.DevelopersGroup, "--policy", "attested"}} {
		if _, err := lab.Succeeded(admin.Kubehsm(ctx, append([]string{"helpdesk", "ticket", "--yes"}, args...)...)); err != nil {
			return fmt.Errorf("make a ticket: %w", err)
		}
	}
	s, err := (&play{lab: &admin}).start(24, p.lab.Binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for _, step := range []struct{ until, send string }{{"5 Help desk", "5"}, {"ben", ""}} {
		if err := p.wait(ctx, s, step.until); err != nil {
			return err
		}
		if err := s.Type(step.send); err != nil {
			return err
		}
	}
	return p.take(s, "desk", "kubehsm")
}

// file files a request with the card's key.
func (p *play) file(ctx context.Context, user, group string, flags ...string) error {
	_, err := lab.Succeeded(p.lab.KubehsmPIN(ctx, ownPIN, append([]string{"csr", "create", "--context", lab.Context,
		"--key", "piv:serial=12345678;slot=9a", "--user", user, "--group", group, "--expiration", "24h",
		"--reason", "a laptop of my own"}, flags...)...))
	if err != nil {
		return fmt.Errorf("file a request: %w", err)
	}
	return nil
}

// attested is a request as its approver sees it whose key is proved to be in a token.
func (p *play) attested(ctx context.Context) (err error) {
	if err := p.file(ctx, "jane@sso", lab.DevelopersGroup, "--name", "jane-laptop"); err != nil {
		return err
	}
	admin := *p.lab
	admin.Kubeconfig = p.lab.Cluster.AdminKubeconfig()
	s, err := (&play{lab: &admin}).startSized(110, 32, "/bin/sh", "-i")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Wait(ctx, free); err != nil {
		return err
	}
	if err := s.Type("kubehsm csr show jane-laptop --root root.pem\r"); err != nil {
		return err
	}
	if err := p.wait(ctx, s, "What the certificate would allow"); err != nil {
		return err
	}
	if err := s.Wait(ctx, free); err != nil {
		return err
	}
	return p.take(s, "attested", "admin@laptop")
}

// touch is the question about a request that a touch answers: the key signs what was asked.
func (p *play) touch(ctx context.Context) (err error) {
	enroll := []string{"enroll", "--name", "ops", "--context", lab.Context, "--slot", "9c", "--touch-policy", "always",
		"--keep-current", "--approve-with", p.lab.Cluster.AdminKubeconfig(), "--yes"}
	for _, args := range [][]string{enroll, {"consent", "set", "ops", "--policy", "writes", "--yes"}} {
		if _, err := lab.Succeeded(p.lab.KubehsmPIN(ctx, ownPIN, args...)); err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
	}
	b, err := os.ReadFile(p.lab.Cluster.Kubectl())
	if err != nil {
		return err
	}
	// The question names the file of the program: a copy keeps the folder of this checkout out of the picture.
	if err := os.WriteFile(filepath.Join(p.lab.Dir, "kubectl"), b, 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	s, err := p.startSized(100, 14, "/bin/sh", "-i")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.Wait(ctx, free); err != nil {
		return err
	}
	if err := s.Type("PATH=$PWD:$PATH; clear; kubectl --context ops delete deployment web --namespace default\r"); err != nil {
		return err
	}
	if err := p.wait(ctx, s, "to allow it"); err != nil {
		return err
	}
	return p.take(s, "touch", "jane@laptop")
}
