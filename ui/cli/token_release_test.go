package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// TestOfferRelease: scdaemon is ended only by a person's yes, asked for once.
func TestOfferRelease(t *testing.T) {
	bin := t.TempDir()
	ran := filepath.Join(bin, "ran")
	script := "#!/bin/sh\necho \"$@\" > '" + ran + "'\nexit $(cat '" + bin + "/exit')\n"
	for name, content := range map[string]string{"gpgconf": script, "exit": "0"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	scdaemon := &hsm.BusyError{Reader: "r", Holders: []string{"scdaemon (process 7)"}}
	for _, c := range []struct {
		name    string
		off     bool
		ask     hsm.Prompter
		held    *hsm.BusyError
		runs    bool
		exit    string
		mended  bool
		message string
	}{
		{name: "yes", ask: hsmtest.NewScript(t, hsmtest.Yes()), held: scdaemon, runs: true, mended: true},
		{name: "no", ask: hsmtest.NewScript(t, hsmtest.No()), held: scdaemon},
		{name: "cancelled", ask: hsmtest.NewScript(t, hsmtest.Cancel()), held: scdaemon},
		{name: "nobody to ask", ask: prompt.None(), held: scdaemon},
		{name: "not offered here", off: true, ask: hsmtest.NewScript(t), held: scdaemon},
		{name: "another holder", ask: hsmtest.NewScript(t), held: &hsm.BusyError{Holders: []string{"firefox (process 8)"}}},
		{name: "fails", ask: hsmtest.NewScript(t, hsmtest.Yes()), held: scdaemon, runs: true, exit: "2", message: "error: gpgconf --kill scdaemon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(bin, "exit"), []byte("0"+c.exit), 0o600); err != nil {
				t.Fatal(err)
			}
			var errs bytes.Buffer
			a := &app{Program: &Program{Stderr: &errs}, asker: c.ask, offers: !c.off}
			if got := a.offerRelease(t.Context(), c.held); got != c.mended {
				t.Errorf("mended %v", got)
			}
			if a.offerRelease(t.Context(), c.held) {
				t.Error("offered twice")
			}
			b, err := os.ReadFile(ran)
			if (err == nil) != c.runs || c.runs && string(b) != "--kill scdaemon\n" {
				t.Errorf("gpgconf: %q, %v", b, err)
			}
			if !strings.Contains(errs.String(), c.message) {
				t.Errorf("stderr %q", errs.String())
			}
			_ = os.Remove(ran) // not there if it did not run
		})
	}
}
