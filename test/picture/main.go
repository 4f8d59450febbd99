//go:build linux

// Command picture draws the README's picture from the real program, on a virtual YubiKey and a real
// control plane:
//
//	go run ./test/picture [-o FILE]
//
// It is a moving SVG of a terminal: what a person sees one after the other, at a pace that can be read.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/kubehsm/kubehsm/test/controlplane"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/vcard"
)

func main() {
	out := flag.String("o", "docs/pictures/job.svg", "the file to write")
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

// onCardVar is set for the program that finds the card in its reader.
const onCardVar = "KUBEHSM_PICTURE_ON_CARD"

// run sets the stage, lets the program play, and takes the pictures.
func run(ctx context.Context, out string) (code int, err error) {
	if os.Getenv(onCardVar) == "" {
		return onCard("-o", out)
	}
	dir, err := os.MkdirTemp("", "jane-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return 0, onStage(ctx, dir, func(l *lab.Lab) error {
		return (&play{lab: l, out: out}).job(ctx)
	})
}

// onCard runs this program again, where it finds a new YubiKey, a virtual one, in a reader. Its owner takes a moment
// to touch it, so that one can see that it is asked for.
func onCard(args ...string) (int, error) {
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
	card := vcard.New(vcard.Config{Touch: touch})
	// On its way vcard.Run runs this program once more, where there is no card yet.
	return vcard.Run([]*vcard.Card{card}, "/usr/bin/env", append([]string{onCardVar + "=1", self}, args...)...)
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
