//go:build linux && cgo

package adversary

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kubehsm/kubehsm/plugin/agent/wire"
	"github.com/kubehsm/kubehsm/plugin/bridge/loopback"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/test/adversary/play"
	"github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/poll"
	"github.com/kubehsm/kubehsm/test/term"
)

// impostorAttacks stand where the agent or the bridge should.
var impostorAttacks = []attack{
	{name: "on-the-port", run: onThePort},
	{name: "on-the-socket", run: onTheSocket},
	{name: "open-folder", run: openFolder},
	{name: "copied-folder", run: copiedFolder},
}

// endAll kills every process of kubehsm's, as an adversary can.
func (s *stage) endAll() {
	poll.Until(s.trial, "kubehsm's processes have ended", func() bool {
		all, err := s.Processes()
		s.Must(err)
		for pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL) // The process may have ended.
		}
		return len(all) == 0
	})
}

func (s *stage) dirs() home.Dirs {
	d, err := home.FromEnv(func(k string) string { return map[string]string{home.EnvHome: s.Home}[k] })
	s.Must(err)
	return d
}

// openKeys are the files of the state folder that hold a private key, as PEM, DER or JSON has it, but for that of the
// bridge's CA, which is good for loopback alone.
func (s *stage) openKeys() (found []string) {
	s.Must(filepath.WalkDir(filepath.Join(s.Home, "state"), func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || e.Name() == "ca.pem" {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		all := [][]byte{b}
		for word := range strings.FieldsFuncSeq(string(b), func(c rune) bool { return strings.ContainsRune("\"' \n", c) }) {
			if raw, err := base64.StdEncoding.DecodeString(word); err == nil {
				all = append(all, raw)
			}
		}
		for _, text := range all {
			if isKey(text) {
				found = append(found, path)
			}
		}
		return nil
	}))
	return found
}

// isKey finds a private key in b, also behind some bytes of another kind.
func isKey(b []byte) bool {
	if strings.Contains(string(b), "PRIVATE KEY-----") {
		return true
	}
	for from := range min(64, len(b)) {
		if b[from] != 0x30 { // a sequence of ASN.1
			continue
		}
		_, ec := x509.ParseECPrivateKey(b[from:])
		_, pkcs8 := x509.ParsePKCS8PrivateKey(b[from:])
		if ec == nil || pkcs8 == nil {
			return true
		}
	}
	return false
}

// onThePort: all processes are ended, and another one takes the bridge's port.
func onThePort(s *stage) {
	ep, err := loopback.Setup(s.dirs())
	s.Must(err)
	s.endAll()
	impostor := s.player(suite.program)
	o := play.Order{Do: "squat", Address: ep.Address(),
		Text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"}
	impostor.did(o)
	t := s.terminal("/bin/sh", "-c", "kubectl -n "+s.space+" delete configmap b; echo code $?")
	poll.Within(soon, func() bool { return strings.Contains(t.Output(), "code ") || strings.Contains(t.Output(), "PIN:") })
	out := t.Output()
	if !strings.Contains(out, "the bridge's port is taken") || !strings.Contains(out, "code 1") {
		s.Wrong("kubectl with another program on the port:\n%s", out)
	}
	if strings.Contains(out, "needs its P") {
		s.Wrong("the PIN was asked for:\n%s", out)
	}
	t.Press(term.CtrlC)
	if got := impostor.did(play.Order{Do: "squat"}).Done; len(got) > 0 {
		s.Wrong("the impostor on the port was sent %q", got)
	}
	_ = impostor.conn.Close() // Closing ends the impostor.
	impostor.end()
	s.endAll()
	s.unlock()
	s.stands("b", "another program on the port")
}

// onTheSocket: the agent is ended, and another process answers on its socket with a
// session that it has made up, and on the bridge's port with the same certificate.
func onTheSocket(s *stage) {
	ep, err := loopback.Setup(s.dirs())
	s.Must(err)
	s.endAll()
	impostor := s.player(suite.program)
	socket := s.dirs().Socket()
	s.Must(os.RemoveAll(socket))
	own := s.selfMade()
	session, err := json.Marshal(map[string]any{
		"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
		"status": map[string]string{"clientCertificateData": string(own.Certificate), "clientKeyData": string(own.Key)}})
	s.Must(err)
	var frame strings.Builder
	const size = 4096 // Such a length is plain text, as an order wants it.
	s.Must(wire.WriteFrame(&frame, wire.KindSecret, append(session, bytes.Repeat([]byte(" "), size-len(session))...)))
	impostor.did(play.Order{Do: "squat", Path: socket, Text: frame.String()})
	impostor.did(play.Order{Do: "squat", Address: ep.Address(), Credential: own,
		Text: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"})
	res, err := s.Kubectl(s.ctx, "delete", "--raw", s.configmap("b"))
	s.Must(err)
	if res.Code == 0 || !strings.Contains(res.Stderr, "x509: ") {
		s.Wrong("kubectl with another program on the agent's socket and the bridge's port: %s", res)
	}
	if res, err = s.KubehsmPIN(s.ctx, s.pin, "unlock", lab.Enrolled); err == nil && res.Code == 0 {
		s.Wrong("another program on the agent's socket passes for the agent: %s", res)
	}
	s.Must(err)
	for _, got := range impostor.did(play.Order{Do: "squat"}).Done {
		if strings.Contains(got, s.pin) {
			s.Wrong("the impostor on the socket was sent the PIN")
		}
		if strings.Contains(got, "DELETE ") {
			s.Wrong("the impostor on the port was sent %q", got)
		}
	}
	_ = impostor.conn.Close() // Closing ends the impostor.
	impostor.end()
	s.unlock()
	s.stands("b", "another program on the agent's socket")
}

// selfMade is a certificate for the bridge's address, which nobody has signed.
func (s *stage) selfMade() *play.Credential {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	s.Must(err)
	return &play.Credential{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})}
}

// openFolder: what others may change is not used.
func openFolder(s *stage) {
	s.endAll()
	d := s.dirs()
	for _, dir := range []string{d.Run, d.State, d.Home} {
		s.Must(os.Chmod(dir, 0o777))
		res, err := s.KubehsmPIN(s.ctx, s.pin, "unlock", lab.Enrolled)
		s.Must(err)
		s.Must(os.Chmod(dir, 0o700))
		if res.Code == 0 || !strings.Contains(res.Stderr, "can be changed by others") {
			s.Wrong("with %s open to others: %s", dir, res)
		}
		s.endAll()
	}
	s.unlock()
}

// copiedFolder: all that is in the folders, used in another place.
func copiedFolder(s *stage) {
	if found := s.openKeys(); len(found) > 0 {
		s.Wrong("a copy has the private keys in %q", found)
	}
	copied := filepath.Join(s.Dir, "copy-"+unique())
	s.Must(os.Mkdir(copied, 0o700))
	s.Must(filepath.WalkDir(s.Home, func(path string, e os.DirEntry, err error) error {
		rel, rerr := filepath.Rel(s.Home, path)
		to := filepath.Join(copied, rel)
		switch {
		case err != nil || rerr != nil || rel == ".":
			return err
		case e.IsDir():
			return os.Mkdir(to, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		return err
	}))
	env := []string{home.EnvHome + "=" + copied}
	res, err := s.Run(s.ctx, lab.Run{Env: env}, s.Cluster.Kubectl(), "-n", s.space, "delete", "configmap", "b")
	s.Must(err)
	if res.Code == 0 {
		s.Wrong("kubectl with a copied folder: %s", res)
	}
	_, err = s.Run(s.ctx, lab.Run{Env: env}, s.Binary, "agent", "stop")
	s.Must(err)
	s.stands("b", "a copied folder")
}
