//go:build unix

package credential

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/plugin/ask"
	"github.com/kubehsm/kubehsm/test/need"
)

// asksFor is the variable that has this program ask like a plugin, and say on descriptor 3
// what becomes of the question and of the command.
const asksFor = "KUBEHSM_TEST_ASKS"

func TestMain(m *testing.M) {
	if os.Getenv(asksFor) == "" {
		os.Exit(m.Run())
	}
	said := os.NewFile(3, "said")
	withdrawTime = 0
	ctx, p, _ := whileWanted(context.Background(), os.Stdout, ask.Func(
		func(ctx context.Context, _ ask.Question) (ask.Answer, error) {
			fmt.Fprintln(said, "asks")
			<-ctx.Done()
			return ask.Answer{}, context.Cause(ctx)
		}))
	_, err := p.PIN(ctx, hsm.PINPrompt{})
	<-ctx.Done()
	fmt.Fprintln(said, err, "/", context.Cause(ctx))
}

// TestNobodyWaits: a question ends with the program that started the plugin, and when nobody
// reads what the plugin writes, as behind a shell that runs on.
func TestNobodyWaits(t *testing.T) {
	for name, leave := range map[string]func(shell *exec.Cmd, output *os.File) error{
		"the parent is killed":    func(shell *exec.Cmd, _ *os.File) error { return shell.Process.Kill() },
		"nobody reads the output": func(_ *exec.Cmd, output *os.File) error { return output.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			shell := exec.Command("sh", "-c", `"$0"; true`, os.Args[0])
			shell.Env = append(os.Environ(), asksFor+"=1")
			output, out, err := os.Pipe()
			need.NoError(t, err)
			said, say, err := os.Pipe()
			need.NoError(t, err)
			shell.Stdout, shell.ExtraFiles = out, []*os.File{say}
			need.NoError(t, shell.Start())
			t.Cleanup(func() {
				_ = shell.Process.Kill()
				_ = shell.Wait()
				_ = output.Close()
				_ = said.Close()
			})
			need.NoError(t, out.Close())
			need.NoError(t, say.Close())
			lines := bufio.NewReader(said)
			if line, err := lines.ReadString('\n'); line != "asks\n" {
				t.Fatalf("%q, %v", line, err)
			}
			need.NoError(t, leave(shell, output))
			line, err := lines.ReadString('\n')
			if want := fmt.Sprintln(ask.ErrGone, "/", ask.ErrGone); line != want || err != nil {
				t.Errorf("%q, %v", line, err)
			}
		})
	}
}
