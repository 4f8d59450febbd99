package prompt

import (
	"os"
	"testing"

	"github.com/kubehsm/kubehsm/test/nolocks"
)

// lockless becomes a program without file locks, if it is started for that.
func lockless() { nolocks.Main() }

// TestPromptWithoutLocks: where the file system keeps no locks, a prompt is shown all the same,
// after a note that prompts may mix.
func TestPromptWithoutLocks(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	s := start(t, nolocks.Command(t, []string{"PROMPT_TEST_CHILD=pin", "PROMPT_TEST_LOCKDIR=" + t.TempDir()}, self))
	s.expect("note: prompts of several programs may mix")
	s.expect("does not support file locks")
	s.asking(pinLabel)
	s.typed("123456\n")
	s.expect("RESULT pin " + digest("123456"))
}
