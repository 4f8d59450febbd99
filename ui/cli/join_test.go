package cli

import (
	"strings"
	"testing"
)

// TestJoinNothing: without a word about the cluster, and without a join on
// record, nothing is taken from the kubeconfig in its stead.
func TestJoinNothing(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"join", "--name", "nothing"},
		{"join", "--name", "nothing", "--user", "jane", "--yes"}} {
		b.fails(1, "no join was begun", args...)
	}
}

// TestJoinCertificate: a certificate that was sent is for an enrollment that was
// begun, however it was.
func TestJoinCertificate(t *testing.T) {
	b := newBench(t)
	_, file := b.keyWithCertificate()
	b.fails(1, "enrollment record", "join", "--name", "nothing", "--certificate", file)
}

// TestJoinRefuses: what does not say which cluster is meant is a usage error, which repeats no token.
func TestJoinRefuses(t *testing.T) {
	const good, server = "abcdef.0123456789abcdef", "127.0.0.1:1 "
	hash := " --discovery-token-ca-cert-hash sha256:" + strings.Repeat("0", 64)
	b := newBench(t)
	for _, c := range []struct{ stdin, args, words string }{
		{good, server + "--token -", "discovery-token-ca-cert-hash"},
		{"abc", server + "--token -" + hash, "not a bootstrap token"},
		{good, server + "--token - --discovery-token-ca-cert-hash md5:0", "does not begin with sha256"},
		{good, "--discovery-file x --token -", "discovery-file"},
		{"KHSM1-AAAAA-AAAAA-AAAAA", "--ticket -", "wrong or missing"},
		{"", server + "--ticket -", "leave address"},
		{"", server + "--token /nonexistent" + hash, "neither a bootstrap token nor a file"},
		{good, "http://" + server + "--token -" + hash, "the scheme must be https"},
		{good, server + "--context prod", "--context"},
	} {
		b.stdin = c.stdin
		code, _, errs := b.run(strings.Fields("join --user jane --yes " + c.args)...)
		if code != 2 || !strings.Contains(errs, c.words) || strings.Contains(errs, "0123456789abcdef") {
			t.Errorf("%s: exit code %d, want %q: %s", c.args, code, c.words, errs)
		}
	}
}
