//go:build linux && cgo

package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/plugin/clusterapi"
	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/vcard"
)

// cardPIN is that of the card: a PIV PIN has at most 8 digits.
const cardPIN = "73916402"

// TestFileOnlyToken: where nobody signs in with a bootstrap token, the help desk's join line has a token that
// can only file requests. Its thief gets nothing.
func TestFileOnlyToken(t *testing.T) {
	cards := vcard.ForTest(t)
	l := newLab(t, controlplane.Options{APIServerFlags: []string{"--enable-bootstrap-token-auth=false"}})
	l.start()
	l.kubectl("create", "clusterrolebinding", "dev", "--clusterrole=view", "--group=dev")
	binary, err := e2e.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	desk, err := l.c.KubeconfigFor("jill", "kubehsm:helpdesk")
	if err != nil {
		t.Fatal(err)
	}
	at := l.home(t, binary)
	line := func(kubeconfig string, args ...string) e2e.Result {
		t.Helper()
		res, err := at.Run(t.Context(), e2e.Run{Env: []string{"KUBECONFIG=" + kubeconfig}}, binary,
			append([]string{"roster", "line", "--group", "dev", "--name", "prod-hsm", "--lifetime", "24h"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := line(desk); res.Code != 1 || !strings.Contains(res.Stderr, "--file-only") ||
		strings.Contains(l.kubectl("-n", "kube-system", "get", "secrets", "-oname"), "bootstrap-token") {
		t.Errorf("with a bootstrap token: %s", res)
	}
	if res := line(desk, "--file-only", "--ttl", "48h"); res.Code != 1 ||
		!strings.Contains(res.Stderr, "24 hours at most") {
		t.Errorf("for two days: %s", res)
	}
	said := line(desk, "--file-only", "--ttl", "1h")
	words := strings.Fields(strings.ReplaceAll(said.Stdout, "'", ""))
	if said.Code != 0 || len(words) < 6 || words[4] != "--tls-bootstrap-token" {
		t.Fatalf("the line: %s", said)
	}
	token := words[5]

	c := newCrowd(l)
	jane := c.onRoster(c.person(1, "jane"))
	card := vcard.New(vcard.Config{Serial: jane.serial, CA: l.maker})
	card.SetPIN(cardPIN)
	cards.Insert(t, 0, card)
	p := l.home(t, binary)
	_, err = e2e.Succeeded(p.KubehsmPIN(t.Context(), cardPIN, append(words[1:], "--user", jane.user, "--hsm",
		fmt.Sprintf("piv:serial=%d", jane.serial), "--accept-risk", "default-secrets", "--yes")...))
	if err != nil {
		t.Fatal(err)
	}
	who, err := e2e.Succeeded(p.Kubectl(t.Context(), "auth", "whoami", "-ojsonpath={.status.userInfo.username}"))
	if who != jane.user {
		t.Errorf("kubectl is %q: %v", who, err)
	}
	if found, files, err := e2e.FilesWith(p.Home, token); len(found) > 0 || files == 0 || err != nil {
		t.Errorf("the token is in %q of %d files: %v", found, files, err)
	}

	// What a thief of the line may do.
	allowed := l.kubectl("auth", "can-i", "--list", "--as="+clusterapi.JoinerUser, "--as-group=system:serviceaccounts",
		"--as-group=system:serviceaccounts:kubehsm-system", "--as-group=system:authenticated")
	for row := range strings.Lines(allowed) {
		resource, rest, _ := strings.Cut(row, " ")
		switch rest = strings.TrimSpace(rest); {
		case strings.HasPrefix(row, "Resources"), strings.HasPrefix(rest, "[/"), strings.HasPrefix(resource, "self"):
		case resource == "clustertrustbundles.certificates.k8s.io": // every service account reads these authorities
		case resource == "certificatesigningrequests.certificates.k8s.io" && strings.HasSuffix(rest, "[create get]"):
		default:
			t.Errorf("it allows %s", row)
		}
	}
	thief := c.person(2, "thief")
	thief.user, thief.bearer = jane.user, token
	forged := c.person(3, "forged")
	forged.maker, forged.bearer = c.forger, token
	for _, p := range []*person{thief, forged} {
		if err := c.file(p); err != nil {
			t.Fatal(err)
		}
	}
	poll.Until(t, "the forged one is denied", func() bool { return l.stored().denied["forged"] != nil })
	poll.Until(t, "the thief's own token waits for an admin", func() bool {
		out, err := l.c.Admin(t.Context(), "", "-n", "kubehsm-system", "get", "requestreview", "thief",
			"-ojsonpath={.status.adminOnly}")
		return err == nil && out == "true"
	})

	// It ends with its service account.
	l.kubectl("-n", "kubehsm-system", "delete", "serviceaccount", clusterapi.Joiner)
	poll.Until(t, "the token has ended", func() bool {
		return errors.Is(c.postOnce(c.bearer, token, "/version", nil, nil), errUnauthorized)
	})
	if res := line(desk, "--file-only"); res.Code != 1 || !strings.Contains(res.Stderr, "docs/fleet.md") {
		t.Errorf("without the service account: %s", res)
	}
}
