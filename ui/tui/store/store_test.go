package store

import (
	"testing"
	"time"

	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/flow/token"
	"github.com/kubehsm/kubehsm/ui/tui/task"
)

// TestStaleAnswers: what an earlier reading says does not replace a later one.
func TestStaleAnswers(t *testing.T) {
	e, fake := flowtest.Env(t, "blue", "green")
	s := New(Sources{Tokens: token.Tokens{Env: e}}, task.New(t.Context()))
	now := time.Now()
	first := s.LoadTokens(now)
	second := s.LoadTokens(now)
	old := first()
	fake.SetProblems() // the second reading is of the same tokens
	if !s.Update(second(), now) {
		t.Fatal("the later answer did not count")
	}
	if s.Update(old, now) || len(s.Tokens.Value.Views) != 2 {
		t.Errorf("%d tokens: the earlier answer counted", len(s.Tokens.Value.Views))
	}
}
