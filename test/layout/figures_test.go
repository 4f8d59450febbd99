package layout

import (
	"go/constant"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// figures are what docs/security.md promises in numbers, and the constants that keep it.
var figures = []struct {
	words          string
	pack, constant string
	want           int64
}{
	{"pauses for 30 seconds", "plugin/agent/consents", "grantPause", int64(30 * time.Second)},
	{"after ten minutes at the latest", "plugin/agent/consents", "grantLife", int64(10 * time.Minute)},
	{"A no holds for five seconds", "plugin/agent/consents", "refusalPause", int64(5 * time.Second)},
	{"does not arrive within 30 seconds", "plugin/bridge", "bodyTimeout", int64(30 * time.Second)},
	{"no space within 30 seconds", "plugin/bridge", "bodyTimeout", int64(30 * time.Second)},
	{"At most 64 MiB of bodies", "plugin/bridge", "maxHeld", 64 << 20},
	{"A body of more than 3 MiB", "plugin/consent/body", "Limit", 3 << 20},
	{"Beyond 32 of them", "plugin/consent", "maxParts", 32},
	{"or 256 rules", "plugin/consent", "maxPartRules", 256},
	{"at most 7 KiB as text", "plugin/consent", "maxWords", 7 << 10},
	{"for 400 days", "plugin/bridge/loopback", "identityLife", int64(400 * 24 * time.Hour)},
	{"After 200 days", "plugin/bridge/loopback", "nextBefore", int64(200 * 24 * time.Hour)},
	{"60 days before the former one ends", "ui/flow/doctor", "endsSoon", int64(60 * 24 * time.Hour)},
	{"the last 100 changes", "kubeconfig", "KeepSteps", 100},
	{"Eight files", "plugin/audit", "keep", 7}, // beside the one that is written
	{"of 4 MiB are kept", "plugin/audit", "maxSize", 4 << 20},
	{"after 30 minutes without use", "plugin/settings", "DefaultIdle", int64(30 * time.Minute)},
	{"after 8 hours in any case", "plugin/settings", "DefaultMax", int64(8 * time.Hour)},
	{"for at most a second", "plugin/agent/token", "stateTimeout", int64(time.Second)},
	{"values of 1 MiB", "hsm/pkcs11", "maxValue", 1 << 20},
	{"4096 slots", "hsm/pkcs11", "maxReaders", 4096},
}

// TestFiguresAreTrue: a number that docs/security.md promises is the one in the program.
func TestFiguresAreTrue(t *testing.T) {
	tr := product(t)
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(doc)), " ")
	for _, f := range figures {
		if !strings.Contains(text, f.words) {
			t.Errorf("docs/security.md does not say %q", f.words)
		}
		i := slices.IndexFunc(tr.packages, func(p *part) bool { return p.name == f.pack })
		if i < 0 {
			t.Errorf("there is no package %s", f.pack)
			continue
		}
		c, ok := tr.packages[i].types.Scope().Lookup(f.constant).(*types.Const)
		if !ok {
			t.Errorf("%s has no constant %s", f.pack, f.constant)
			continue
		}
		if got, exact := constant.Int64Val(constant.ToInt(c.Val())); !exact || got != f.want {
			t.Errorf("%q: %s.%s is %s, want %d", f.words, f.pack, f.constant, c.Val(), f.want)
		}
	}
}
