package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// runKubelet is a stub of a kubelet: what the API server needs of a node for
// exec, attach, cp, logs and port-forward. It runs no containers. A command
// "in" a pod runs on this machine, in a folder of the pod's; a port of a pod is
// the same port of 127.0.0.1; a pod's log is what its commands write into the
// file log in that folder. The streams are those of the kubelet's own library.
//
// Whoever may call it can run commands as its user, so it serves only clients
// whose certificate is the API server's.
func runKubelet() {
	address := flag.String("address", "", "listen on `HOST:PORT`")
	root := flag.String("root", "", "`folder` of the pods' folders")
	cert := flag.String("tls-cert-file", "", "the server's certificate (PEM)")
	key := flag.String("tls-private-key-file", "", "its key (PEM)")
	clientCA := flag.String("client-ca-file", "", "authority of clients (PEM)")
	client := flag.String("client-name", "", "common name of the one client that is served")
	flag.Parse()
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(*clientCA); err != nil || !pool.AppendCertsFromPEM(pem) || *client == "" {
		log.Fatalf("kubelet: --client-ca-file and --client-name are needed: %v", err)
	}
	server := &http.Server{
		Addr:              *address,
		Handler:           node{root: *root, client: *client},
		ReadHeaderTimeout: 10 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
			ClientCAs: pool},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // protocol upgrades need HTTP/1.1
	}
	log.Fatal(server.ListenAndServeTLS(*cert, *key))
}

// node serves the kubelet's API.
type node struct{ root, client string }

// Limits of streams: how long an idle one stays, and how long a client may take
// to open all of them.
const (
	streamIdle     = 4 * time.Hour
	streamCreation = 30 * time.Second
)

func (n node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if who := r.TLS.PeerCertificates[0].Subject.CommonName; who != n.client {
		http.Error(w, "not for "+who, http.StatusForbidden)
		return
	}
	log.Printf("%s %s upgrade=%q", r.Method, r.URL, r.Header.Get("Upgrade"))
	if r.URL.Path == "/healthz" {
		fmt.Fprintln(w, "ok")
		return
	}
	// VERB/NAMESPACE/POD[/CONTAINER]
	path := append(strings.Split(strings.Trim(r.URL.Path, "/"), "/"), "")
	if len(path) < 4 || !filepath.IsLocal(path[1]) || !filepath.IsLocal(path[2]) {
		http.NotFound(w, r)
		return
	}
	p := pod{filepath.Join(n.root, path[1], path[2])}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	switch path[0] {
	case "exec", "attach":
		p.command(w, r, path[0], path[2], path[3])
	case "portForward":
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, p, path[2], "", options, streamIdle, streamCreation,
			[]string{portforward.ProtocolV1Name})
	case "containerLogs":
		p.logs(w, r)
	default:
		http.NotFound(w, r)
	}
}

// pod is a folder.
type pod struct{ dir string }

func (p pod) command(w http.ResponseWriter, r *http.Request, verb, name, container string) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if verb == "attach" {
		remotecommand.ServeAttach(w, r, p, name, "", container, options, streamIdle, streamCreation,
			remotecommand.SupportedStreamingProtocols)
		return
	}
	remotecommand.ServeExec(w, r, p, name, "", container, r.URL.Query()["command"], options, streamIdle, streamCreation,
		remotecommand.SupportedStreamingProtocols)
}

// ExecInContainer implements [remotecommand.Executor].
func (p pod) ExecInContainer(ctx context.Context, _, _, _ string, command []string, in io.Reader,
	out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "TERM=xterm"}
	var err error
	if tty {
		err = onTerminal(cmd, in, out, resize)
	} else {
		cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = in, out, errs, 100*time.Millisecond
		if err = cmd.Run(); errors.Is(err, exec.ErrWaitDelay) { // it ended well and left its input unread
			err = nil
		}
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code := exit.ExitCode()
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() { // as container runtimes have it
			code = 128 + int(status.Signal())
		}
		return utilexec.CodeExitError{Err: err, Code: code}
	}
	return err
}

// onTerminal runs cmd on a terminal of its own, of the size that the client says.
func onTerminal(cmd *exec.Cmd, in io.Reader, out io.Writer, resize <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(cmd)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			if err := pty.Setsize(terminal, &pty.Winsize{Cols: size.Width, Rows: size.Height}); err != nil {
				log.Println("resize:", err)
			}
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }() // ends with the client or the terminal
	}
	_, _ = io.Copy(out, terminal) // ends with EIO once the program has
	return cmd.Wait()
}

// AttachContainer implements [remotecommand.Attacher]: a pod's main program
// says that it is attached to and repeats what it reads.
func (p pod) AttachContainer(ctx context.Context, name, uid, container string, in io.Reader, out, errs io.WriteCloser,
	tty bool, resize <-chan remotecommand.TerminalSize) error {
	return p.ExecInContainer(ctx, name, uid, container, []string{"/bin/sh", "-c", "echo attached; exec cat"}, in, out,
		errs, tty, resize, 0)
}

// PortForward implements [portforward.PortForwarder].
func (pod) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", fmt.Sprint(port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // either end may leave
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}

// logs sends the log as it is, and with follow what is added, until the client
// has gone.
func (p pod) logs(w http.ResponseWriter, r *http.Request) {
	f, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer f.Close()
	flush := http.NewResponseController(w).Flush
	for {
		if _, err := io.Copy(w, f); err != nil || flush() != nil || r.URL.Query().Get("follow") != "true" {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}
