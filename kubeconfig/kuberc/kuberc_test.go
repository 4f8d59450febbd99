package kuberc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/kubeconfig"
)

func TestPluginPolicy(t *testing.T) {
	const own = "/opt/bin/kubehsm"
	for _, c := range []struct {
		name, text string
		allows     bool
		fix        string
	}{
		{"none of it", "", true, ""},
		{"only aliases", "kind: Preference\naliases: []\n", true, ""},
		{"all", "credentialPluginPolicy: AllowAll\n", true, ""},
		{"none", "credentialPluginPolicy: DenyAll\n", false, "--allowlist-entry command=/opt/bin/kubehsm"},
		{"others", "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist:\n- command: oidc\n- command: /a b\n", false,
			"--allowlist-entry command=oidc --allowlist-entry command='/a b' --allowlist-entry command=/opt/bin/kubehsm"},
		{"by path", "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: /opt/bin/kubehsm}]\n", true, ""},
		{"by name", "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: kubehsm}]\n", true, ""},
		{"by the old field", "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{name: kubehsm}]\n", true, ""},
		{"other path", "credentialPluginPolicy: Allowlist\ncredentialPluginAllowlist: [{command: /usr/bin/kubehsm}]\n", false,
			"--allowlist-entry command=/usr/bin/kubehsm --allowlist-entry command=/opt/bin/kubehsm"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kuberc")
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p, err := ReadPluginPolicy(func(k string) string { return map[string]string{"KUBERC": file}[k] })
			if err != nil || p.Allows(own) != c.allows {
				t.Fatalf("%+v, %v", p, err)
			}
			want := ""
			if c.fix != "" {
				want = "kubectl kuberc set --section credentialplugin --policy Allowlist --kuberc " + shell.Quote(file) + " " +
					c.fix
			}
			if got := p.Allowing(own); got != want {
				t.Errorf("%s\nwant %s", got, want)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "kuberc")
	if err := os.WriteFile(file, []byte("credentialPluginPolicy: DenyAll\n\t- x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPluginPolicy(func(string) string { return file }); !errors.Is(err, kubeconfig.ErrParse) {
		t.Errorf("got %v", err)
	}
	if p, err := ReadPluginPolicy(func(string) string { return "off" }); err != nil || p.File != "" || !p.Allows(own) {
		t.Errorf("%+v, %v", p, err)
	}
}
