package home

import (
	"testing"

	"golang.org/x/sys/windows"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// TestFoldersOfWindows: the folders are those of Windows.
func TestFoldersOfWindows(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want Dirs
	}{
		{"profile", map[string]string{"APPDATA": `D:\r`, "LOCALAPPDATA": `C:\l`, "HOME": `C:\h`, "XDG_STATE_HOME": `C:\x`},
			Dirs{Config: `D:\r\kubehsm`, State: `C:\l\kubehsm`, Run: `C:\l\kubehsm\run`}},
		{"defaults", map[string]string{"USERPROFILE": `C:\Users\u`, "APPDATA": `\r`}, Dirs{Config: `C:\Users\u\AppData\Roaming\kubehsm`,
			State: `C:\Users\u\AppData\Local\kubehsm`, Run: `C:\Users\u\AppData\Local\kubehsm\run`}},
		{"KUBEHSM_HOME", map[string]string{"KUBEHSM_HOME": `C:\k\`, "LOCALAPPDATA": `C:\l`},
			Dirs{Home: `C:\k`, Config: `C:\k`, State: `C:\k\state`, Run: `C:\k\run`}},
	} {
		if got, err := FromEnv(func(name string) string { return c.env[name] }); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	for _, path := range []string{"k", `\k`, "/k"} {
		if _, err := FromEnv(func(string) string { return path }); err == nil || hint.Of(err) != absHint {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwner: a folder of ours is used, and one that others may change is not.
func TestOwner(t *testing.T) {
	dir := t.TempDir()
	if err := checkDir(dir); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		sddl string
		safe bool
	}{
		{"D:P(A;;FA;;;OW)(A;;FA;;;SY)(A;;FA;;;BA)", true},
		{"D:P(A;;FA;;;OW)(A;;FR;;;WD)(A;;FRFX;;;BU)", true},
		{"D:P(A;;FA;;;OW)(A;OICIIO;FA;;;AU)", true},
		{"D:P(A;;FA;;;OW)(A;;FW;;;BU)", false},
		{"D:P(A;;FA;;;OW)(A;OICI;0x1301bf;;;AU)", false},
	} {
		sd, err := windows.SecurityDescriptorFromString(c.sddl)
		if err != nil {
			t.Fatalf("%s: %v", c.sddl, err)
		}
		if who, err := crowdThatChanges(sd); err != nil || (who == "") != c.safe {
			t.Errorf("%s: %q, %v", c.sddl, who, err)
		}
	}
}
