package enroll

import (
	"cmp"
	"context"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/span"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/text"
	"github.com/kubehsm/kubehsm/ui/tui/dialog"
	"github.com/kubehsm/kubehsm/ui/tui/keys"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/store"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
	"github.com/kubehsm/kubehsm/ui/verb"
)

// What the resume page's items stand for, besides the index of a record.
const (
	itemNew   = -1
	itemDraft = -2
)

// resumePage offers to continue unfinished enrollments. It is skipped if there are none.
type resumePage struct {
	m    *wizard
	list picker
}

func newResume(m *wizard) *resumePage { return &resumePage{m: m} }

func (p *resumePage) enter(now time.Time) tea.Cmd { return p.fill(now) }
func (p *resumePage) leave()                      {}
func (p *resumePage) typing() bool                { return p.list.filter.Typing() }
func (p *resumePage) animating() bool             { return !p.m.Store.Unfinished.Loaded }

func (p *resumePage) fill(now time.Time) tea.Cmd {
	u := p.m.Store.Unfinished
	if !u.Loaded {
		return nil
	}
	if len(u.Value) == 0 && p.m.Draft.Empty() && u.Err == nil {
		return p.m.instead(stageReview, now)
	}
	var items []item
	if d := p.m.Draft; !d.Empty() {
		items = append(items, item{id: "draft", index: itemDraft, name: "Continue with your choices",
			about: present.Token(d.token.Info), right: "nothing has been done yet", level: present.Quiet})
	}
	for i, j := range u.Value {
		name := "Resume "
		if j.Options.Renewal != nil {
			name += "the renewal of "
		}
		items = append(items, item{
			id: j.Options.Name, index: i, name: name + text.Clean(j.Options.Name), level: present.Quiet,
			about:  text.Clean(j.Options.User + " on " + cmp.Or(j.Options.Context, j.Cluster.Server)),
			right:  span.Of(now.Sub(j.Updated)) + " ago",
			detail: []string{progressOf(j)},
		})
	}
	items = append(items, item{id: "new", index: itemNew, name: "Start a new enrollment"})
	p.list.set(items, p.m.opts.Name)
	return nil
}

func progressOf(j enrolling.Progress) string {
	next := j.Next()
	var done []string
	for _, s := range j.Done {
		done = append(done, text.Clean(s.Title()))
	}
	if len(done) == 0 {
		return "Nothing has been done yet. Next: " + next.Title() + "."
	}
	return "Done: " + strings.Join(done, ", ") + ". Next: " + next.Title() + "."
}

type forgetMsg struct{}

func (p *resumePage) forget() screen.Action {
	_, ok := p.begun()
	return screen.Action{Key: keys.As(p.m.Keys.Delete, "drop it"), Writes: true,
		Reason: screen.When(!ok, "choose an enrollment that was begun")}
}

func (p *resumePage) askForget(o enrolling.Options) tea.Cmd {
	q := present.DropQuestion(o)
	return screen.Operate(screen.Operation{Title: "Drop " + o.Name, Writes: true,
		Run: func(ctx context.Context, ask hsm.Prompter) (screen.Report, error) {
			if err := screen.Sure(ctx, ask, q); err != nil {
				return screen.Report{}, err
			}
			if err := p.m.Enroller.Forget(ctx, o.Name); err != nil {
				return screen.Report{}, err
			}
			return screen.Report{Said: o.Name + ": dropped", Message: forgetMsg{}}, nil
		}})
}

type goOnMsg struct{ opts enrolling.Options }

func (p *resumePage) begun() (j enrolling.Progress, ok bool) {
	it, ok := p.list.selected()
	if !ok || it.index < 0 {
		return j, false
	}
	return p.m.Store.Unfinished.Value[it.index], true
}

// sent continues with a certificate from a file, for a person who may no longer read it from the
// cluster.
func (p *resumePage) sent() screen.Action {
	j, ok := p.begun()
	return screen.Action{Key: keys.Letter("i", "I received a certificate"), Writes: true,
		Reason: screen.Because(screen.When(!ok, "choose an unfinished enrollment"),
			screen.When(j.Request.KeyHash == "", "it has no key yet"))}
}

func (p *resumePage) takeSent(o enrolling.Options) tea.Cmd {
	path := ""
	file := verb.Option{Flag: "file", Into: &path, Label: "File", Empty: "sent.pem",
		Note: "The certificate for this enrollment's key, in PEM."}
	return screen.Send(dialog.OpenMsg{Dialog: dialog.NewOptions(p.m.Keys, "Continue with a certificate that you received",
		"", []verb.Option{file}, func(f *widget.Form) tea.Cmd {
			path := screen.Path(path)
			if path == "" {
				f.Field("file").Problem = "name a file"
				return nil
			}
			return screen.Operate(screen.Operation{Title: "Take the certificate", Writes: true,
				Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
					pem, err := screen.ReadFile(path)
					if err == nil {
						err = p.m.Joins.TakeCertificate(ctx, o.Name, pem)
					}
					if err != nil {
						return screen.Report{}, err
					}
					return screen.Report{Message: goOnMsg{o}}, nil
				}})
		})})
}

func (p *resumePage) update(msg tea.Msg, now time.Time) tea.Cmd {
	switch msg := msg.(type) {
	case store.UnfinishedMsg:
		return p.fill(now)
	case forgetMsg:
		p.m.opts.Name = "" // the next enrollment is another one
		return nil
	case screen.ChangedMsg:
		return p.m.Store.LoadUnfinished(now)
	case goOnMsg:
		return p.m.resume(msg.opts, now)
	}
	if p.list.update(msg, p.m.Keys) {
		return nil
	}
	k, ok := msg.(tea.KeyPressMsg)
	switch {
	case !ok:
	case key.Matches(k, p.m.Keys.Back):
		return p.m.back(now)
	case key.Matches(k, p.sent().Key) && p.sent().Reason == "":
		j, _ := p.begun()
		return p.takeSent(j.Options)
	case key.Matches(k, p.forget().Key) && p.forget().Reason == "":
		j, _ := p.begun()
		return p.askForget(j.Options)
	case key.Matches(k, p.m.Keys.Enter):
		it, ok := p.list.selected()
		switch {
		case !ok:
		case it.index == itemNew:
			return p.m.to(stageReview, now)
		case it.index == itemDraft:
			return p.m.takeDraft(now)
		default:
			return p.m.resume(p.m.Store.Unfinished.Value[it.index].Options, now)
		}
	}
	return nil
}

func (p *resumePage) actions() []screen.Action {
	if len(p.list.items) == 0 {
		return []screen.Action{{Key: p.m.Keys.Back}}
	}
	a := p.list.actions(p.m.Keys, "go on", "back")
	if p.typing() {
		return a
	}
	return append(a, p.sent(), p.forget())
}

func (p *resumePage) view(f screen.Frame) string {
	t, u := f.Theme, p.m.Store.Unfinished
	if len(p.list.items) == 0 {
		since, _ := u.Loading()
		return widget.Working(t, "Looking for unfinished enrollments", since, f.Now)
	}
	lines := heading(t, "Continue an enrollment, or start a new one?", f.Height)
	if u.Err != nil {
		lines = append(append(lines, widget.Failure(t, u.Err, f.Width)...), "")
	}
	return strings.Join(append(lines, p.list.view(f.With(f.Width, f.Height-len(lines)))), "\n")
}
