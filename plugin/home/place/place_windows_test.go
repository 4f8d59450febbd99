package place

import (
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// TestFromEnv: the folders are those of Windows.
func TestFromEnv(t *testing.T) {
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
