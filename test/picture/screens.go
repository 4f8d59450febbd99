//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
)

// home is the first screen after an enrollment, and tokens the next one.
func (p *play) home(ctx context.Context) (err error) {
	s, err := p.start(24, p.lab.Binary)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := p.wait(ctx, s, "ends in"); err != nil {
		return err
	}
	if err := p.take(s, "home", "kubehsm"); err != nil {
		return err
	}
	if err := s.Type("1"); err != nil {
		return err
	}
	if err := p.wait(ctx, s, "SLOT"); err != nil {
		return err
	}
	if err := s.Type(string(term.Down)); err != nil {
		return err
	}
	if err := p.wait(ctx, s, "Fingerprint"); err != nil {
		return err
	}
	return p.take(s, "tokens", "kubehsm")
}

// requests are what waits for the cluster's approver, one of them looked at.
func (p *play) requests(ctx context.Context) (err error) {
	for _, who := range [][]string{{"tom", "ops"}, {"mara", lab.DevelopersGroup}} {
		if _, err := lab.Succeeded(p.lab.KubehsmPIN(ctx, lab.PIN, "csr", "create", "--context", lab.Context, "--key",
			"pkcs11:token=jane;object=prod-hsm",
			"--user", who[0], "--group", who[1], "--expiration", "24h", "--reason", "a laptop of my own")); err != nil {
			return fmt.Errorf("file a request: %w", err)
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
