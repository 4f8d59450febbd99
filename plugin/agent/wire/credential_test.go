package wire

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/test/must"
)

// FuzzCredential: encoding/json reads what AppendJSON writes as what it writes itself, of every field.
func FuzzCredential(f *testing.F) {
	f.Add("prod", `{"kind":"ExecCredential","spec":{}}`, `/opt/a "b"\c/kubehsm`, 1, int64(3))
	f.Add("\x00\x1f\x7f\n\t", "ä\u2028<&>\U0001f511", "\xff\xfe", -1, int64(-1))
	f.Fuzz(func(t *testing.T, name, info, path string, v int, modified int64) {
		c := Credential{V: v, Op: name, Enrollment: name, ExecInfo: info, APIVersion: info, Program: Build{Version: name, Path: path, Size: modified,
			Modified: time.Unix(modified>>30, modified&(1<<29-1)).UTC()}}
		var got, want Credential
		all := reflect.ValueOf(c)
		for i := range all.NumField() {
			if name != "" && info != "" && v != 0 && all.Field(i).IsZero() {
				t.Fatalf("%s is not tried", all.Type().Field(i).Name)
			}
		}
		theirs, err := json.Marshal(c)
		must.OK(t, err)
		ours := c.AppendJSON(nil)
		if err := json.Unmarshal(ours, &got); err != nil {
			t.Fatalf("%v in %q", err, ours)
		}
		must.OK(t, json.Unmarshal(theirs, &want))
		if got != want {
			t.Errorf("%q is read as %+v, not as %+v", ours, got, want)
		}
	})
}
