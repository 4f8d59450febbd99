package tui_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/hsmtest"
	"github.com/kubehsm/kubehsm/hsm/shared/hint"
	"github.com/kubehsm/kubehsm/plugin/audit"
	"github.com/kubehsm/kubehsm/test/must"
	"github.com/kubehsm/kubehsm/ui/flow/enrolling"
	"github.com/kubehsm/kubehsm/ui/flow/flowtest"
	"github.com/kubehsm/kubehsm/ui/tui"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/screentest"
	"github.com/kubehsm/kubehsm/ui/tui/tuitest"
)

// hostileTexts are names and messages as a hostile card, cluster or file could
// have them.
func hostileTexts() map[string]string {
	return map[string]string{
		"sequences": "a\x1b[35;41mb\r\nc\x1b[0m\x1b[2J\x1b[H\x1b]0;title\x07\x1bPq\x1b\\b\x9b31m\x1b_kubehsm:cursor\x1b\\",
		"unseen": "a\u009b31m\u202egpj.exe\u202c\u2066b\u2069\u200f\u200bb\u200d\ufeffc\u2060\u00add\nc\x08\x7f\v\fd\u2028e\u2029\u0085f\x00" +
			"a\xff\xfe\xc3(\xed\xa0\x80\xf8",
		"wide": "Z" + strings.Repeat("\u0335\u0301\u0489", 30) + "\uff76\uff9e\u1100\u1161\u11a8" +
			strings.Repeat("👩‍👩‍👧‍👦🏳️‍🌈👍🏽🇩🇪", 3) + strings.Repeat("鍵", 50),
		"long":       strings.Repeat("0123456789", 300),
		"long words": strings.Repeat("kubernetes-\x1b[7m-", 150),
		"empty":      "",
	}
}

// poison puts s into every text below v.
func poison(v reflect.Value, s string, name string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if c, ok := v.Interface().(*x509.Certificate); ok && c != nil {
			c.Subject.CommonName, c.Subject.Organization, c.Issuer.CommonName = s, []string{s, s}, s
			return
		}
		if !v.IsNil() {
			poison(v.Elem(), s, name)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() || v.Type() == reflect.TypeFor[hsm.URI]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && v.Field(i).CanSet() &&
				!slices.Contains([]string{"Event", "Outcome"}, f.Name) {
				poison(v.Field(i), s, f.Name)
			}
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String && v.CanSet() {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			poison(v.Index(i), s, name)
		}
	case reflect.String:
		if v.CanSet() {
			v.SetString(s)
		}
	}
}

// poisoned is v with s in all its texts.
func poisoned[T any](v T, s string) T {
	poison(reflect.ValueOf(&v).Elem(), s, "")
	return v
}

// hostile is a world whose tokens, cluster, files and agent say s wherever they can say
// anything.
func hostile(t *testing.T, s string) *world {
	t.Helper()
	w := newWorld(t)
	valid := strings.ToValidUTF8(s, "\ufffd") // formats may take only valid UTF-8
	w.Generate(w.soft, hsm.GenerateOptions{Label: s})
	w.begun("staging-hsm", enrolling.Progress{})
	w.begun("other-hsm", enrolling.Progress{Options: enrolling.Options{User: s, Context: s}})
	spare := w.Tokens.Add(hsmtest.FakeOptions{Label: "spare"}) // a record holds no URI that is hostile
	key := w.Generate(spare, hsm.GenerateOptions{Label: "prod"})
	w.Enroll("prod-hsm", key, w.Certify(spare, key, "jane"+valid, valid, valid))
	for i, tok := range []*hsmtest.FakeToken{w.soft, w.card} {
		tok.Describe(func(info *hsm.TokenInfo) {
			info.Label, info.Manufacturer, info.Model, info.Firmware, info.Reader = s, s, s, s, s
			info.Serial = fmt.Sprint(i) + s
			if info.Module != nil {
				info.Module.Path, info.Module.Description = s, s
			}
			info.Can.Lack.Why = s
		})
	}
	w.Tokens.SetProblems(hsm.Problem{Source: s, Err: hint.With(errors.New("failed: "+s), s)})
	w.addContext("a"+s, s)
	w.request("kubehsm-"+valid, "a"+valid, valid, time.Minute, valid, "b"+valid)
	w.bootstrapToken("aaaaaa", s, time.Hour)
	w.bind(valid, valid)
	busy(w)
	r := poisoned(audit.Record{Client: &audit.Process{}}, s)
	r.Time, r.Event = tuitest.Now(), audit.Denial
	if len(s) < 2000 { // a record has a limit
		flowtest.Record(t, w.Env.Dirs, r)
	}
	return w
}

// addContext adds a context to the kubeconfig whose cluster and user say s.
func (w *world) addContext(name, s string) {
	w.T.Helper()
	config := w.Kubeconfig()
	add := func(list, kind string, o map[string]any) {
		b, err := json.Marshal(map[string]any{"name": name, kind: o})
		must.OK(w.T, err)
		var item strings.Builder
		for _, r := range string(b) { // YAML takes no other control characters
			if r < ' ' || r > '~' {
				fmt.Fprintf(&item, "\\U%08x", r)
				continue
			}
			item.WriteRune(r)
		}
		config = strings.Replace(config, list+":\n", list+":\n- "+item.String()+"\n", 1)
	}
	add("clusters", "cluster", map[string]any{"server": s})
	add("users", "user", map[string]any{"exec": map[string]any{"apiVersion": "client.authentication.k8s.io/v1",
		"command": s, "args": []any{s}}})
	add("contexts", "context", map[string]any{"cluster": name, "user": name, "namespace": s})
	must.OK(w.T, os.WriteFile(w.Env.Kubeconfig, []byte(config), 0o600))
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// checkHostile wants a frame to hold nothing that a terminal would act on but
// our own colours, and to be as large as the terminal.
func checkHostile(t *testing.T, where string, v tea.View, w, h int) {
	t.Helper()
	screentest.CheckFrame(t, v, w, h)
	if strings.Contains(v.Content, "\x1b[35;41") || strings.Contains(v.WindowTitle, "title") {
		t.Errorf("%s: foreign colours in\n%q", where, v.Content)
	}
	for _, r := range colours.ReplaceAllString(v.Content, "") {
		if (r < ' ' || r > '~') && r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) ||
			unicode.Is(unicode.Zp, r)) {
			t.Errorf("%s: %U in the frame", where, r)
			return
		}
	}
	if t.Failed() {
		t.Fatal(where)
	}
}

// TestHostileTexts goes through every screen and does everything that a key does
// there, to the end of every dialog, while all that comes from outside is hostile.
func TestHostileTexts(t *testing.T) {
	t.Chdir(t.TempDir()) // some of what it does writes files of hostile names
	walks := [][]string{{"0", "~Context"}, {"1"}, {"g", "enter", "~change PIN"}, {"g", "down", "down", "down", "enter", "~change PIN"},
		{"2", "~staging", "/", `"prod-hsm"`, "enter", "~in 90 y"}, {"2", "~staging"}, {"3", "~3 requests"},
		{"3", "~3 requests", "tab", "tab"}, {"3", "~3 requests", "enter", "~Fingerprint"}, {"4", "~agent"}, {"4", "tab"},
		{"5", "~nobody knows"}, {"6", "~look again"}, {"/", `"a"`}, {"ctrl+p"}, {"?"}, {"x"},
		{"g", "down", "e"}, {"R"}}
	for name, s := range hostileTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, done := hostile(t, s), map[string]bool{}
			for _, walk := range walks {
				r := w.hostileRig()
				r.hostileWalk("", walk...)
				actor, ok := tui.Top(r.Model()).(screen.Actor)
				if !ok || tui.OpenDialogs(r.Model()) > 0 {
					r.hostileWalk(fmt.Sprint(walk), "enter", "enter", "enter", `"jane"`, "enter", "enter", "enter", "enter", "y", "y")
					r.Close()
					continue
				}
				r.Close()
				if name != "sequences" {
					continue // only the width differs, and the dialogs have the same parts
				}
				for _, a := range actor.Acts() {
					if does := string(tui.Top(r.Model()).ID()) + a.Key.Help().Desc; a.Reason == "" && !done[does] {
						done[does] = true
						if !a.Writes {
							hostileAct(t, w, s, walk, a)
							continue
						}
						t.Run(does, func(t *testing.T) {
							t.Parallel()
							hostileAct(t, hostile(t, s), s, walk, a)
						})
					}
				}
			}
		})
	}
}

// hostileAct does what a key does at the end of a walk, with a hostile text in each field.
func hostileAct(t *testing.T, w *world, s string, walk []string, a screen.Act) {
	r := w.hostileRig()
	defer r.Close()
	for _, key := range walk {
		r.hostileStep(key)
	}
	does := fmt.Sprintf("%v: %s", walk, a.Key.Help().Desc)
	r.hostileWalk(does, a.Key.Keys()[0])
	r.Send(tea.PasteMsg{Content: s})
	r.Press("tab")
	r.Send(tea.PasteMsg{Content: s})
	r.hostileWalk(does, "tab", "enter", "y", "enter", "y", "esc")
}

// TestHostilePrompts asks for a PIN, a touch and a yes, and tells how far work is,
// in hostile words.
func TestHostilePrompts(t *testing.T) {
	for name, s := range hostileTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := hostile(t, s)
			r := w.open(80, 24)
			r.settle()
			info := poisoned(cardInfo(), s)
			info.Scheme, info.PIN.MaxLen = hsm.SchemePIV, 8
			purpose := poisoned(hsm.Purpose{}, s)
			ask := func(what string, do func(context.Context) error) {
				t.Helper()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				before := tui.OpenDialogs(r.Model())
				go func() { ended <- do(ctx) }()
				r.Until(what, func() bool { return tui.OpenDialogs(r.Model()) > before })
				r.Time = r.Time.Add(5 * time.Second) // a long action says more
				r.Press("x", "up", "down")
				r.hostileLook(what, allSizes())
				cancel()
				r.Until(what+" ends", func() bool { return len(ended) == 1 && tui.OpenDialogs(r.Model()) == before })
			}
			ask("a PIN", func(ctx context.Context) error {
				_, err := tui.Prompter(r.Model()).PIN(ctx,
					hsm.PINPrompt{Kind: hsm.PIVPIN, Token: info, Purpose: purpose, Again: "wrong: " + s, Retries: 2})
				return err
			})
			ask("a new PIN", func(ctx context.Context) error {
				_, err := tui.Prompter(r.Model()).PIN(ctx, hsm.PINPrompt{Kind: hsm.PINKind("ticket " + s), New: true, Retries: -1})
				return err
			})
			ask("a yes", func(ctx context.Context) error {
				_, err := tui.Prompter(r.Model()).Confirm(ctx, hsm.ConfirmPrompt{Question: s + "?", Detail: s + "\n" + s})
				return err
			})
			ask("a typed yes", func(ctx context.Context) error {
				_, err := tui.Prompter(r.Model()).Confirm(ctx, hsm.ConfirmPrompt{Question: s + "?", Detail: s, Type: "serial " + s})
				return err
			})
			ask("a question", func(ctx context.Context) error {
				_, err := tui.Prompter(r.Model()).Confirm(ctx, hsm.ConfirmPrompt{Question: s + "?", Notice: s,
					Fields: []hsm.Field{{Label: s, Values: []string{s, s, s, s}}, {Label: "Program", Values: []string{s}}}})
				return err
			})
			ask("a touch", func(ctx context.Context) error {
				done := tui.Prompter(r.Model()).Touch(ctx, hsm.TouchPrompt{Token: info, Purpose: purpose})
				<-ctx.Done()
				done()
				return nil
			})
			r.Send(screen.OperationMsg{Operation: screen.Operation{Title: "Work on " + s,
				Run: func(ctx context.Context, _ hsm.Prompter) (screen.Report, error) {
					screen.Say(ctx, s)
					<-ctx.Done()
					return screen.Report{}, ctx.Err()
				}}})
			r.Time = r.Time.Add(5 * time.Second)
			r.hostileLook("work", allSizes())
			r.Press("esc")
			r.Until("work ends", func() bool { return tui.OpenDialogs(r.Model()) == 0 })
			r.Send(screen.ToastMsg{Text: s, Warn: true})
			r.Send(screen.FailureMsg{Title: s, Err: hint.With(errors.New(s+": failed"), s)})
			r.hostileWalk("a failure", "down")
		})
	}
}

func (w *world) hostileRig() *rig {
	w.T.Helper()
	r := w.open(200, 50)
	r.Sees("p384")
	r.Send(tea.WindowSizeMsg{Width: 80, Height: 24})
	return r
}

// hostileStep presses a key, or waits for what is behind "~".
func (r *rig) hostileStep(name string) {
	r.T.Helper()
	if text, sees := strings.CutPrefix(name, "~"); sees {
		r.Send(tea.WindowSizeMsg{Width: 200, Height: 50})
		r.Sees(text)
		return
	}
	r.Press(name)
	r.idle()
}

// hostileWalk takes steps and looks at the frame after each, and at the last one
// in all sizes.
func (r *rig) hostileWalk(where string, names ...string) {
	r.T.Helper()
	for i, n := range names {
		r.hostileStep(n)
		if r.Quit {
			return
		}
		where += ", " + n
		sizes := allSizes()
		if at := len(r.Given) % len(sizes); i < len(names)-1 {
			sizes = sizes[at : at+1]
		}
		r.hostileLook(where, sizes)
		switch len(r.Given) % 3 {
		case 0:
			r.noColour()
		case 1:
			r.Send(tea.BackgroundColorMsg{Color: color.White})
		default:
			r.Send(tea.BackgroundColorMsg{Color: color.Black})
		}
	}
}

func allSizes() [][2]int { return [][2]int{{60, 15}, {80, 24}, {200, 50}} }

// hostileLook looks at the frame in several sizes.
func (r *rig) hostileLook(where string, sizes [][2]int) {
	t := r.T.(*testing.T)
	t.Helper()
	for _, size := range sizes {
		r.Send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		checkHostile(t, fmt.Sprintf("%s at %v", where, size), r.Frame(), size[0], size[1])
	}
}

// idle runs the program until it waits for a person, for something new in the cluster
// or the log, or for nothing.
func (r *rig) idle() {
	r.T.Helper()
	r.Idle(func() int { return 2 + tui.Ticks(r.Model()) })
}
