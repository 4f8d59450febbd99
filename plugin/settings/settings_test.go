package settings

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/need"
)

var check = need.NoError

func TestLoad(t *testing.T) {
	d, err := home.FromEnv(func(string) string { return t.TempDir() })
	check(t, err)
	c, err := Load(d)
	if err != nil || c.Unlock != (Unlock{DefaultIdle, DefaultMax}) || c.Modules != nil ||
		c.LockOn != (LockOn{Suspend: true}) || c.Follow != DefaultFollow {
		t.Fatalf("%+v %v", c, err)
	}
	write := func(s string) { check(t, os.WriteFile(d.ConfigFile(), []byte(s), 0o600)) }
	write("# mine\nmodules:\n- name: soft\n  path: /usr/lib/softhsm/libsofthsm2.so\n  env: {SOFTHSM2_CONF: /x}\n" +
		"pinentry: /usr/bin/pinentry\nunlock: {idle: 10m}\nlockOn: {screenLock: true}\nfollow: 1h\n")
	c, err = Load(d)
	check(t, err)
	if c.Modules[0].Env["SOFTHSM2_CONF"] != "/x" || c.Modules[0].Name != "soft" || c.Pinentry != "/usr/bin/pinentry" ||
		c.Unlock != (Unlock{10 * time.Minute, DefaultMax}) || c.LockOn != (LockOn{Suspend: true, ScreenLock: true}) ||
		c.Follow != Follow(time.Hour) {
		t.Fatalf("%+v", c)
	}
	set := map[string]string{}
	check(t, c.SetEnv(func(k, v string) error { set[k] = v; return nil }))
	if len(set) != 1 || set["SOFTHSM2_CONF"] != "/x" {
		t.Fatal(set)
	}
	for text, words := range map[string]string{
		"":                                  "",
		"# nothing\n":                       "",
		"pinentry: /x\nmodulez: []\n":       "line 2: field modulez not found",
		"modules:\n- path: /a\n  typo: 1\n": "line 3: field typo not found",
		"modules:\n- path: libx.so\n":       "not absolute",
		"pinentry: pinentry\n":              "absolute",
		"lockOn: {screen: true}\n":          "line 1: field screen not found",
		"unlock: {idle: 1s}\n":              "between 1m and 24h",
		"unlock: {max: 999h}\n":             "between 1m and 24h",
		"unlock: {idle: soon}\n":            "line 1",
		"follow: never\n":                   "",
		"\nfollow: daily\n":                 "line 2: follow must be never or a duration between 1s and 24h, not \"daily\"",
		"follow: -1ns\n":                    "between 1s and 24h",
		"follow: 25h\n":                     "between 1s and 24h",
		"follow: {every: 1h}\n":             "must be never or",
		"a: [\n":                            "line",
		"pinentry: /a\n---\npinentry: /b\n": "more than one document",
		"modules: [{path: /a, env: {A: 1}}, {path: /b, env: {A: 2}}]\n": "another value",
		"modules: [{path: /a, env: {\"A=B\": 1}}]\n":                    "cannot be set",
	} {
		write(text)
		_, err := Load(d)
		if (words == "") != (err == nil) || (err != nil &&
			(!strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), d.ConfigFile()))) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// What names libraries to load must not be another's to write.
	write("")
	check(t, os.Chmod(d.ConfigFile(), 0o666))
	if _, err := Load(d); !errors.Is(err, home.ErrUnsafe) {
		t.Error(err)
	}
}
