package cli

import "testing"

// TestJoinNothing: without a word about the cluster, and without a join on
// record, nothing is taken from the kubeconfig in its stead.
func TestJoinNothing(t *testing.T) {
	b := newBench(t)
	for _, args := range [][]string{{"join", "--name", "nothing"},
		{"join", "--name", "nothing", "--user", "jane", "--yes"}, {"join", "--name", "nothing", "--generate-puk"}} {
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
