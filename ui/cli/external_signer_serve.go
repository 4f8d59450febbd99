package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/externalsigner"
	"github.com/kubehsm/kubehsm/plugin/externalsigner/service"
	"github.com/kubehsm/kubehsm/plugin/home"
	"github.com/kubehsm/kubehsm/plugin/process"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/signer"
	"github.com/kubehsm/kubehsm/ui/text"
)

func (a *app) externalSignerServe() *cobra.Command {
	var path string
	c := a.command(&cobra.Command{
		Use:   "serve",
		Short: "Serve clients of the auth provider externalSigner on a socket",
		Long: `Serves clients that have the auth provider externalSigner. They get the certificate and
signatures over gRPC on a unix socket that only you can reach, with
"pathSocket: unix://PATH" in their kubeconfig. The clients show when something needs
your attention. You type the PIN where this command runs.

Each signature asks for the PIN, unless the agent holds the token unlocked ("kubehsm
unlock"). To end the command, press ctrl-c.`,
		Example: `kubehsm external-signer serve
kubehsm external-signer serve --socket ~/.kube/hsm/signer.sock`,
		Args: cobra.NoArgs,
	}, func(c *cobra.Command, _ []string) error {
		dirs, err := a.dirs()
		if err != nil {
			return err
		}
		if c.Flags().Changed("socket") {
			path, err = socketPath(path)
		} else {
			path, err = filepath.Join(dirs.Run, service.SocketName), dirs.Prepare()
		}
		if err != nil {
			return err
		}
		return a.serveSigner(c.Context(), path)
	})
	c.Flags().StringVar(&path, "socket", "",
		"`path` of the socket, or "+service.Scheme+" and an absolute path; default "+service.SocketName+
			" in the run folder. Only you may be able to write to its folder, where a file PATH.lock remains")
	return c
}

// scheme begins what is an address, not a path: an absolute path or one that
// begins with ./ never has it, nor has a drive's letter.
var scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)

// socketPath is the absolute path that --socket gives, as such or as clients'
// configuration has it.
func socketPath(s string) (string, error) {
	path, address := strings.CutPrefix(s, service.Scheme)
	switch {
	case s == "":
		return "", &ui.UsageError{Err: hint.With(errors.New("--socket is empty"),
			"leave it out for the default, "+service.SocketName+" in the run folder")}
	case address && !filepath.IsAbs(path):
		return "", &ui.UsageError{Err: hint.With(fmt.Errorf("--socket: no absolute path follows %s in "+
			"%q", service.Scheme, s),
			"write it as "+service.Scheme+"/PATH")}
	case !address && scheme.MatchString(s):
		return "", &ui.UsageError{Err: hint.With(fmt.Errorf("--socket: %q is no address of a unix socket", s),
			"write a path, or "+service.Scheme+" and an absolute path; ./ before it makes it a file's name")}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("--socket: %w", err)
	}
	return path, nil
}

func (a *app) serveSigner(ctx context.Context, path string) error {
	s := a.signer()
	one := make(chan struct{}, 1) // holds a token while a request uses tokens
	say := func(line string) {
		fmt.Fprintln(a.Stderr, time.Now().Format(time.TimeOnly), text.Clean(line))
	}
	err := service.ListenAndServe(ctx, path, service.Options{
		Log: say,
		Answer: func(ctx context.Context, r externalsigner.Request, tell func(string)) (externalsigner.Answer, error) {
			return answerOne(ctx, s, one, r, tell)
		},
	}, func() { say("serving " + service.Scheme + path) })
	if errors.Is(err, home.ErrUnsafe) { // a shared folder such as /tmp
		err = hint.With(err, "leave --socket out, or name a folder that only you can change")
	}
	return err
}

// answerOne answers a request as soon as no other uses a token: libraries have
// one login for a whole process, which must end with the request that it was
// made for.
func answerOne(ctx context.Context, s signer.Signer, one chan struct{}, r externalsigner.Request,
	tell func(string)) (a externalsigner.Answer, err error) {
	select {
	case one <- struct{}{}:
	default:
		tell("waiting for another client to be served")
		select {
		case one <- struct{}{}:
		case <-ctx.Done():
			r.Zero()
			return a, context.Cause(ctx)
		}
	}
	defer func() { <-one }()
	s.Client = process.Of(service.PeerPID(ctx))
	s.Around = service.Announced("where the external signer runs", tell)
	o, done, err := s.Options("answer where the external signer runs: start it in a terminal, configure a " +
		"pinentry, or run `kubehsm unlock` first")
	if err != nil {
		r.Zero()
		return a, err
	}
	o.Warn = func(message string) { tell("warning: " + message) }
	a, err = externalsigner.Do(ctx, r, o)
	if cerr := done(); err == nil && cerr != nil {
		return externalsigner.Answer{}, cerr
	}
	return a, err
}
