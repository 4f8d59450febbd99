package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kubehsm/kubehsm/hsm/shared/hint"
)

// up starts what is not there yet and does the main job.
func up(ctx context.Context, t *trial) error {
	if err := t.claim(); err != nil {
		return err
	}
	release, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := recordSelf(t.upFile()); err != nil {
		return err
	}
	fmt.Printf("The trial lives in %s; your own kubeconfig and tokens are not touched.\n", t.dir)
	soft, err := t.softHSM()
	if err != nil {
		return err
	}
	if err := t.configure(soft); err != nil {
		return err
	}
	heading("build kubehsm (a minute or two the first time)")
	if err := buildKubehsm(ctx, t); err != nil {
		return err
	}
	heading("make the token, start the cluster")
	fmt.Printf("  token %q, in software (SoftHSM); its PIN is %s\n", tokenLabel, trialPIN)
	if err := ensureCluster(ctx, t); err != nil {
		return err
	}
	enroll := unattended
	if interactive() {
		enroll = guided
	}
	if err := enroll(ctx, t); err != nil {
		return err
	}
	if err := useKubectl(ctx, t); err != nil {
		return err
	}
	if err := prove(ctx, t, soft); err != nil {
		return err
	}
	farewell(t)
	return nil
}

// interactive tells whether a person is there and a full screen can be drawn.
func interactive() bool {
	return term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb"
}

// enrollArguments are the enrollment's, for both ways to do it.
func enrollArguments(t *trial) []string {
	return []string{"enroll", "--name", contextOut, "--context", contextIn, "--kubeconfig", t.kubeconfig(),
		"--token", "pkcs11:token=" + tokenLabel, "--user", trialUser, "--group", trialGroup,
		"--approve-with", t.adminKubeconfig()}
}

// guided has the user enroll the token in the terminal UI.
func guided(ctx context.Context, t *trial) error {
	heading("enroll the token, in the terminal UI")
	done, err := enrolled(t)
	if err != nil {
		return err
	}
	if done {
		fmt.Println("  done before: the context", contextOut, "is there. Look around; q leaves it.")
		if err := pressEnter(ctx, "open it"); err != nil {
			return err
		}
		return t.command(ctx, t.kubehsm()).attached()
	}
	fmt.Printf("  When it asks for the PIN of the token, type %s. When the enrollment is done, q leaves it.\n", trialPIN)
	if err := pressEnter(ctx, "open it"); err != nil {
		return err
	}
	args := append(enrollArguments(t), "--tui")
	if err := t.command(ctx, t.kubehsm(), args...).attached(); err != nil {
		return hint.With(fmt.Errorf("the terminal UI: %w", err),
			"`make demo` continues from here; `make demo-down` removes the trial")
	}
	if done, err = enrolled(t); err != nil {
		return err
	}
	if !done {
		return hint.With(errors.New("the enrollment is not finished"),
			"`make demo` continues from here; `make demo-down` removes the trial")
	}
	return nil
}

func pressEnter(ctx context.Context, to string) error {
	fmt.Printf("  Press Enter to %s. ", to)
	read := make(chan error, 1)
	go func() {
		_, err := bufio.NewReader(os.Stdin).ReadString('\n')
		read <- err
	}()
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		fmt.Println()
		return ctx.Err()
	}
}

// enrolled tells whether the kubeconfig has the context that enrollment writes last.
func enrolled(t *trial) (bool, error) {
	if _, err := os.Stat(t.kubeconfig()); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	config, err := clientcmd.LoadFromFile(t.kubeconfig())
	if err != nil {
		return false, err
	}
	_, ok := config.Contexts[contextOut]
	return ok, nil
}

// unattended enrolls by the command line, with the PIN on a file descriptor.
func unattended(ctx context.Context, t *trial) error {
	heading("list the tokens")
	if err := t.command(ctx, t.kubehsm(), "token", "list").shown(); err != nil {
		return err
	}
	heading("enroll: key on the token, request, approval, certificate, kubeconfig")
	enroll := t.command(ctx, t.kubehsm(), append(enrollArguments(t), "--yes", "--pin-fd", "3")...)
	if err := enroll.withPIN().shown(); err != nil {
		return err
	}
	heading("unlock the token, for there is no terminal that kubectl's plugin could ask on")
	return t.command(ctx, t.kubehsm(), "unlock", "--enrollment", contextOut, "--pin-fd", "3").withPIN().shown()
}

// useKubectl runs the real kubectl with the context that the enrollment wrote.
func useKubectl(ctx context.Context, t *trial) error {
	heading("kubectl, unmodified, signed in by the token's key")
	for _, args := range [][]string{
		{"version"},
		{"auth", "whoami"},
		{"get", "namespaces"},
	} {
		if err := t.command(ctx, t.kubectl(), append([]string{"--context", contextOut}, args...)...).shown(); err != nil {
			return err
		}
	}
	return nil
}

func farewell(t *trial) {
	fmt.Println("\nDone. Go on as you like:")
	for _, next := range [][2]string{
		{". " + quoteIfNeeded(fromHere(t.path("env"))), "use the trial's kubehsm and kubectl in this shell"},
		{"kubectl --context " + contextOut + " auth whoami", ""},
		{"kubehsm agent status", "what is unlocked, and for how long"},
		{"kubehsm", "the terminal UI"},
		{"make demo-down", "stop the trial and remove it"},
	} {
		fmt.Println(strings.TrimRight(fmt.Sprintf("  %-44s %s", next[0], next[1]), " "))
	}
}

func heading(text string) { fmt.Printf("\n==> %s\n", text) }
