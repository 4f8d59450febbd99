package pkcs11

import "testing"

func TestModuleNamed(t *testing.T) {
	m := Module{Name: "softhsm2", Path: "/usr/lib/softhsm/libsofthsm2.so"}
	for _, name := range []string{"softhsm2", "libsofthsm2.so", "libsofthsm2"} {
		if !m.named(name) {
			t.Errorf("not named %s", name)
		}
	}
	if m.named("opensc") || m.named("libsoft") {
		t.Error("named something else")
	}
	if m.Name = ""; !m.named("softhsm2") {
		t.Error("libsofthsm2.so is not softhsm2")
	}
}
