package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kubehsm/kubehsm/test/must"
)

// TestDocumentsHideNothing: a name that would turn the terminal around is
// escaped in documents, and still is the same name to who reads them.
func TestDocumentsHideNothing(t *testing.T) {
	for _, name := range []string{"jane", "jäne 日本 🙂", "admin\u202enaj", "a\u2066b\u200b", "tag\U000e0041",
		"esc\x1b[2J\u009b", "del\x7f"} {
		in := map[string]string{"name": name}
		asJSON, err := jsonOf(in, utf16Escape)
		must.OK(t, err)
		asYAML, err := yamlOf(in)
		must.OK(t, err)
		for form, b := range map[string][]byte{"json": asJSON, "yaml": asYAML} {
			if i := strings.IndexAny(string(b), "\u202e\u2066\u200b\U000e0041\x1b\u009b\x7f"); i >= 0 {
				t.Errorf("%s of %q shows %q", form, name, b)
			}
			var out map[string]string
			if form == "json" {
				err = json.Unmarshal(b, &out)
			} else {
				err = yaml.Unmarshal(b, &out)
			}
			if err != nil || out["name"] != name {
				t.Errorf("%s of %q reads as %q, %v", form, name, out["name"], err)
			}
		}
	}
}
