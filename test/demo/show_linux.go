//go:build linux && cgo

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/kubehsm/kubehsm/test/controlplane"
	e2e "github.com/kubehsm/kubehsm/test/e2e/lab"
	"github.com/kubehsm/kubehsm/test/fleet"
	"github.com/kubehsm/kubehsm/test/vcard"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
)

// outcome is how many people the board must show in each stage at the end. The stray's own key has not come.
var outcome = map[desk.Stage]int{desk.StageIn: 16, desk.StageDenied: 1, desk.StageLost: 1, desk.StageNotCome: 2}

// show runs the show of many people in private namespaces, where the virtual readers are.
func show(ctx context.Context, t *trial) error {
	if code := vcard.Main(inside{ctx, t}); code != 0 {
		os.Exit(code) // what runs inside has said why
	}
	return nil
}

type inside struct {
	ctx context.Context
	t   *trial
}

// Run implements what [vcard.Main] wants.
func (i inside) Run() int {
	err := crowd(i.ctx, i.t)
	if i.ctx.Err() != nil {
		return 130 // who started it says so
	}
	return exitCode(i.ctx, err)
}

// stage is what the show plays on.
type stage struct {
	*fleet.Fleet
	t       *trial
	cluster *controlplane.Cluster
	maker   *vcard.CA
	cards   *vcard.Lab
	desk    *e2e.Lab
	people  []fleet.Person
	told    []string // words that refused people were told
}

// crowd has twenty people come, and shows the roster meanwhile. Everything that it starts ends with it.
func crowd(ctx context.Context, t *trial) (err error) {
	dir := t.path("fleet")
	if err := os.RemoveAll(dir); err != nil { // of an earlier run
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, "cards"), filepath.Join(dir, "desk"), filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.RemoveAll(t.path("p")); err != nil {
		return err
	}
	s := &stage{t: t}
	if s.cards, err = vcard.Open(filepath.Join(dir, "cards")); err != nil {
		return err
	}
	defer s.cards.Close()
	heading("start a cluster with the approver in it")
	if s.cluster, err = controlplane.Start(ctx, filepath.Join(dir, "cluster"),
		controlplane.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cluster.Stop(context.WithoutCancel(ctx))) }()
	if err := s.cluster.PublishInfo(ctx, s.cluster.Server()); err != nil {
		return err
	}
	end, err := s.startApprover(ctx, dir)
	if err != nil {
		return err
	}
	defer end()
	if err := s.importPeople(ctx, dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.desk.Close(context.WithoutCancel(ctx))) }()
	if err := s.play(ctx); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explore(ctx, dir)
}

// startApprover starts one replica; the returned function ends it.
func (s *stage) startApprover(ctx context.Context, dir string) (end func(), err error) {
	if s.maker, err = vcard.NewCA("the maker of the trial's cards"); err != nil {
		return nil, err
	}
	a, err := fleet.Install(ctx, s.cluster, s.maker, s.t.approver(), dir)
	if err != nil {
		return nil, err
	}
	metrics, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(s.t.path("log", "approver.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := a.Command(metrics, "0")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL} // no ctrl-c on the terminal is for it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Kill() // the approver may have ended; its log tells why
		_ = cmd.Wait()
	}, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// importPeople has the help desk write everybody on the roster and make the join line.
func (s *stage) importPeople(ctx context.Context, dir string) (err error) {
	heading("the help desk imports a list, and makes one join line for everybody")
	for i, name := range names {
		s.people = append(s.people, fleet.Person{Name: name, Serial: firstSerial + uint32(i)})
	}
	if s.desk, err = fleet.Home(s.cluster, s.t.kubehsm(), filepath.Join(dir, "desk")); err != nil {
		return err
	}
	list := filepath.Join(dir, "people.csv")
	if s.Fleet, err = fleet.Open(ctx, s.cluster, s.t.kubehsm(), list, s.desk, s.people); err != nil {
		return err
	}
	head := strings.SplitAfterN(fleet.List(s.people), "\n", 4)
	fmt.Printf("$ head -3 people.csv\n%s$ kubehsm roster import people.csv\n", strings.Join(head[:3], ""))
	fmt.Printf("$ kubehsm roster line --name %s\n%s\n", fleet.Context, s.Line)
	return os.WriteFile(filepath.Join(dir, "line"), []byte(s.Line+"\n"), 0o600)
}

// play has everybody come, one after the other.
func (s *stage) play(ctx context.Context) error {
	heading("everybody inserts a token and runs that line; nobody at the help desk does anything")
	if !interactive() {
		return s.come(ctx, func(said string) { fmt.Println("  " + said) })
	}
	if err := pressEnter(ctx, "watch the roster"); err != nil {
		return err
	}
	came := make(chan error, 1)
	doing := make(chan string, 1)
	go func() {
		came <- s.come(ctx, func(said string) {
			select {
			case <-doing: // the one before was not shown
			default:
			}
			doing <- said
		})
	}()
	fmt.Print("\x1b[?1049h") // the alternate screen
	defer fmt.Print("\x1b[?1049l")
	said := ""
	for {
		select {
		case err := <-came:
			return err
		case said = <-doing:
		default:
		}
		if err := s.draw(ctx, said); err != nil {
			return errors.Join(err, <-came)
		}
	}
}

// draw shows the roster on the whole terminal.
func (s *stage) draw(ctx context.Context, said string) error {
	board, err := s.AtDesk(ctx, s.desk, "roster", "list")
	if err != nil {
		return err
	}
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimRight(board, "\n"), "\n")
	if n := len(lines); n > max(height-2, 1) { // the sum is the last line
		lines = append(lines[:max(height-3, 0)], lines[n-1])
	}
	var b strings.Builder
	b.WriteString("\x1b[H")
	for _, l := range append([]string{"$ kubehsm roster list   " + said}, lines...) {
		if r := []rune(l); len(r) > width {
			l = string(r[:width])
		}
		b.WriteString(l + "\x1b[K\r\n")
	}
	fmt.Print(b.String() + "\x1b[J")
	return nil
}

// come has everybody come but one, and says so.
func (s *stage) come(ctx context.Context, say func(string)) error {
	for _, p := range s.people {
		if p.Name == late {
			continue
		}
		var flags []string
		card := p
		switch p.Name {
		case greedy:
			flags = append(flags, "--group admins")
		case stray:
			card.Serial = straySerial
		}
		say(fmt.Sprintf("%s comes with the token %d", p.Name, card.Serial))
		if err := s.cards.Put(0, card.Card(s.maker)); err != nil {
			return err
		}
		err := s.Come(ctx, p, s.t.path("p", p.Name), flags...)
		if failed := err != nil; failed != (p.Name == greedy || p.Name == stray) {
			return errors.Join(err, errors.New(p.Name+" did not end as planned"))
		}
		if err != nil {
			_, why, _ := strings.Cut(err.Error(), "\nerror: ")
			why, _, _ = strings.Cut(why, "\n")
			s.told = append(s.told, p.Name+" is told: "+why)
			say(s.told[len(s.told)-1])
		}
	}
	say(loser + " has lost the token")
	_, err := s.AtDesk(ctx, s.desk, "roster", "remove", loser, "--lost", "--yes")
	return err
}

// check compares the roster with what must have become of everybody, and shows it.
func (s *stage) check(ctx context.Context) error {
	heading("what became of everybody")
	shown, err := s.AtDesk(ctx, s.desk, "roster", "list")
	if err != nil {
		return err
	}
	fmt.Print("$ kubehsm roster list\n" + shown)
	if interactive() { // the roster was drawn over it at once
		for _, told := range s.told {
			fmt.Println("  " + told)
		}
	}
	text, err := s.AtDesk(ctx, s.desk, "roster", "list", "-o", "json")
	if err != nil {
		return err
	}
	var board desk.Board
	if err := json.Unmarshal([]byte(text), &board); err != nil {
		return err
	}
	got := map[desk.Stage]int{}
	for _, e := range board.Tokens {
		got[e.Stage]++
	}
	if !maps.Equal(got, outcome) {
		return fmt.Errorf("the roster shows %v, not %v", got, outcome)
	}
	return nil
}

// explore leaves the reader at a prompt of the help desk's, with the key of who did not come in the reader.
func (s *stage) explore(ctx context.Context, dir string) error {
	if !interactive() {
		return nil
	}
	p := s.people[slices.Index(names, late)]
	if err := s.cards.Put(0, p.Card(s.maker)); err != nil {
		return err
	}
	home, err := fleet.Home(s.cluster, s.t.kubehsm(), s.t.path("p", late))
	if err != nil {
		return err
	}
	as := "#!/bin/sh\nexec env -i TERM=\"$TERM\""
	for _, v := range home.Env() {
		as += " " + quote(v)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", late), []byte(as+" \"$@\"\n"), 0o700); err != nil {
		return err
	}
	fmt.Printf("\nYou are %s of the help desk. Go on as you like:\n", fleet.Desk)
	for _, next := range [][2]string{
		{"kubehsm", "the terminal UI: esc, 5 and T show the roster"},
		{"kubehsm csr list", "what everybody asked for"},
		{late + " sh line", late + " comes after all; the PIN is " + fleet.PIN},
		{late + " kubectl get namespaces", "what she may do then"},
		{"kubehsm roster remove anna", "anna has left"},
		{"exit", "end everything; `make demo-down` removes it"},
	} {
		fmt.Printf("  %-30s %s\n", next[0], next[1])
	}
	cmd := exec.CommandContext(ctx, shell())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGHUP) } // an interactive shell ignores SIGTERM
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = dir, os.Stdin, os.Stdout, os.Stderr
	path := strings.Join([]string{filepath.Join(dir, "bin"), s.t.path("bin"), os.Getenv("PATH")},
		string(os.PathListSeparator))
	cmd.Env = append(s.desk.Env(), "PATH="+path, "KUBECONFIG="+s.Kubeconfig, "TERM="+os.Getenv("TERM"),
		"NO_COLOR="+os.Getenv("NO_COLOR"))
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) { // the last command's exit code is not the show's
		return err
	}
	return home.Close(context.WithoutCancel(ctx))
}

// shell is the reader's, or sh.
func shell() string {
	if s, err := exec.LookPath(os.Getenv("SHELL")); err == nil {
		return s
	}
	return "sh"
}
