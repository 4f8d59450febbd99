package signer

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/wire"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/settings"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/prompt"
)

// TestBadInput: one line of error, perhaps one of hint, nothing on standard
// output, and the exit code.
func TestBadInput(t *testing.T) {
	folder := t.TempDir()
	library := filepath.Join(folder, "library.so")
	must.OK(t, os.WriteFile(library, []byte("no code"), 0o600))
	fake := hsmtest.NewFake(hsm.SchemePKCS11)
	fake.Add(hsmtest.FakeOptions{Label: "there"})
	digest := func(n int) string { return base64.StdEncoding.EncodeToString(make([]byte, n)) }
	request := func(kind, config, rest string) string {
		return `{"apiVersion":"` + wire.APIVersion + `","kind":"` + kind + `","configuration":` + config + rest + `}`
	}
	sign := func(digest, opts, number string) string {
		return request("SignRequest", `{"uri":"pkcs11:token=there;id=%02"}`,
			`,"digest":"`+digest+`","signerOptsType":"`+opts+`","signerOpts":"`+number+`"`)
	}
	const key = `{"uri":"pkcs11:token=there;id=%02"}`
	for name, c := range map[string]struct {
		request string
		code    int
	}{
		"no JSON":                 {"certificate, please", 2},
		"unknown kind":            {request("KeyRequest", key, ""), 2},
		"unknown version":         {strings.Replace(request("CertificateRequest", key, ""), "v1alpha1", "v2", 1), 2},
		"missing field":           {request("SignRequest", key, ""), 2},
		"extra field":             {request("CertificateRequest", key, `,"cluster":"c"`), 2},
		"digest too short":        {sign(digest(31), "crypto.Hash", "5"), 2},
		"digest of another hash":  {sign(digest(48), "crypto.Hash", "5"), 2},
		"unknown hash":            {sign(digest(32), "crypto.Hash", "77"), 2},
		"no base64":               {sign("!", "crypto.Hash", "5"), 2},
		"unknown options":         {sign(digest(32), "*rsa.OAEPOptions", "5"), 2},
		"oversized":               {request("CertificateRequest", `{"uri":"pkcs11:token=`+strings.Repeat("a", wire.MaxRequest)+`"}`, ""), 2},
		"no key named":            {request("CertificateRequest", `{}`, ""), 2},
		"escape sequences":        {request("\\u001b[2J\\u202e", key, ""), 2},
		"several lines":           {request("a\\nb", key, ""), 2},
		"no such token":           {request("CertificateRequest", `{"uri":"pkcs11:token=absent;id=%02"}`, ""), 3},
		"no key to be seen":       {request("CertificateRequest", key, ""), 5}, // without the PIN
		"a library nobody knows":  {request("CertificateRequest", `{"uri":"pkcs11:token=there;id=%02","pathLib":"`+library+`"}`, ""), 5},
		"a library that is a lie": {request("CertificateRequest", `{"uri":"pkcs11:token=there;id=%02","pathLib":"`+folder+`/none.so"}`, ""), 1},
	} {
		env := map[string]string{"KUBEHSM_HOME": folder, wire.EnvVar: c.request}
		var out, errs bytes.Buffer
		s := Signer{
			Getenv: func(k string) string { return env[k] }, Setenv: func(string, string) error { return nil },
			Stdout: &out, Stderr: &errs, Prompter: prompt.None(),
			Drivers: func(home.Dirs, []settings.Module, bool) hsm.Drivers { return hsm.Drivers{keepOpen{fake}} },
		}
		err := s.Run(t.Context(), nil)
		ui.Report(&errs, err)
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		if !strings.HasPrefix(lines[0], "error: ") || len(lines) > 2 || len(lines) == 2 &&
			!strings.HasPrefix(lines[1], "hint: ") {
			t.Errorf("%s: standard error is %q", name, errs.String())
		}
		if strings.ContainsAny(errs.String(), "\x1b\u202e") {
			t.Errorf("%s: unclean: %q", name, errs.String())
		}
		if code := ui.ExitCode(err); code != c.code || out.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d; standard output %q; %v", name, code, c.code, out.String(), err)
		}
	}
}

// keepOpen lets several runs share a driver.
type keepOpen struct{ hsm.Driver }

func (keepOpen) Close() error { return nil }
