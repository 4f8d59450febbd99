//go:build linux

// Command picture makes the pictures in docs/pictures from the real program, on
// a virtual YubiKey and a real control plane:
//
//	go run ./test/picture [-o FOLDER]
//
// A picture is one frame of a terminal, drawn as SVG: what a person sees, not
// what somebody thinks it looks like. A moving picture is what a person sees one
// after the other, at a pace that can be read.
package main

import (
	"context"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/term"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func main() {
	out := flag.String("o", "docs/pictures", "the folder to write to")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	code, err := run(ctx, *out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		code = 1
	}
	os.Exit(code)
}

// rootVar holds the root of the card's attestations, in PEM, for the program that finds the card in its reader.
const rootVar = "KUBEHSM_PICTURE_ROOT"

// run sets the stage, lets the program play, and takes the pictures.
func run(ctx context.Context, out string) (code int, err error) {
	root := os.Getenv(rootVar)
	if root == "" {
		return onCard("-o", out)
	}
	dir, err := os.MkdirTemp("", "jane-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return 0, onStage(ctx, dir, func(l *lab.Lab) error {
		p := &play{lab: l, out: out}
		if err := os.WriteFile(filepath.Join(l.Dir, "root.pem"), []byte(root), 0o600); err != nil {
			return err
		}
		for _, scene := range []func(context.Context) error{p.guided, p.job, p.home, p.requests, p.attested, p.desk,
			p.kubectl, p.touch} {
			if err := scene(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}

// onCard runs this program again, where it finds a new YubiKey, a virtual one, in a reader. Its owner takes a moment
// to touch it, so that one can see that it is asked for.
func onCard(args ...string) (int, error) {
	ca, err := vcard.NewCA("Virtual YubiKey root")
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
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Certificate.Raw})
	card := vcard.New(vcard.Config{Touch: touch, CA: ca})
	// On its way vcard.Run runs this program once more, and that must not know the root yet.
	return vcard.Run([]*vcard.Card{card}, "/usr/bin/env", append([]string{rootVar + "=" + string(root), self}, args...)...)
}

// onStage runs a play in a lab of its own, where the card is the only token.
func onStage(ctx context.Context, dir string, do func(*lab.Lab) error) (err error) {
	o := lab.Options{Groups: []string{lab.DevelopersGroup, lab.FilersGroup}}
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
	tokens, err := filepath.Glob(filepath.Join(l.Soft.Tokens, "*"))
	if err != nil {
		return err
	}
	for _, token := range tokens {
		if err := os.RemoveAll(token); err != nil {
			return err
		}
	}
	return do(l)
}

// play is what happens on the terminal.
type play struct {
	lab *lab.Lab
	out string
}

func (p *play) start(rows int, path string, args ...string) (*term.Terminal, error) {
	return p.startSized(100, rows, path, args...)
}

func (p *play) startSized(columns, rows int, path string, args ...string) (*term.Terminal, error) {
	return term.Start(term.Options{Path: path, Args: args, Dir: p.lab.Dir, Columns: columns, Rows: rows,
		Env: append(p.lab.Env(), "PS1=\x1b[1;32m$\x1b[0m ")})
}

func (p *play) wait(ctx context.Context, s *term.Terminal, text string) error {
	if err := s.Wait(ctx, func(f term.Frame) bool { return f.Contains(text) }); err != nil {
		return fmt.Errorf("wait for %q: %w; the screen:\n%s", text, err, s.Frame().Text())
	}
	return nil
}

// take draws the screen into a file.
func (p *play) take(s *term.Terminal, name, title string) error {
	if shown := s.Shown(); len(shown) > 0 {
		return errors.New("a PIN was shown: no picture of that")
	}
	return p.write(name, render(s.Frame().Crop(), title))
}

func (p *play) write(name, svg string) error {
	if err := os.MkdirAll(p.out, 0o755); err != nil { //nolint:gosec // documentation
		return err
	}
	file := filepath.Join(p.out, name+".svg")
	fmt.Fprintln(os.Stderr, file)
	return os.WriteFile(file, []byte(svg), 0o644) //nolint:gosec // documentation
}
