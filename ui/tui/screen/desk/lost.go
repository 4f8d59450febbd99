package desk

import (
	"context"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/kubehsm/kubehsm/hsm"
	"github.com/kubehsm/kubehsm/hsm/shared/shell"
	"github.com/kubehsm/kubehsm/ui"
	"github.com/kubehsm/kubehsm/ui/flow/desk"
	"github.com/kubehsm/kubehsm/ui/present"
	"github.com/kubehsm/kubehsm/ui/tui/screen"
	"github.com/kubehsm/kubehsm/ui/tui/widget"
)

// revoke takes away what can be taken away after a token was lost.
func (d work) revoke() tea.Cmd {
	fields := []*widget.Field{
		{ID: "user", Label: "User", Input: widget.NewInput("", "who lost the token")},
		{ID: "groups", Label: "Groups", Input: widget.NewInput("", "all that are found"),
			Note: "Groups in the user's certificates, separated by commas."},
		{ID: "certificate", Label: "Certificate", Input: widget.NewInput("", "all that are known"),
			Note: "To revoke only that one: its SHA-256, which the audit log calls the credential-id, or its PEM file."},
		{ID: "token", Label: "Token", Input: widget.NewInput("", "all"),
			Note: "To revoke only the certificates of that one: its serial number, or its URI."},
		{ID: "reason", Label: "Reason", Input: widget.NewInput("", "none"),
			Note: "The user who is refused sees it in the error."},
	}
	intro := "The user's certificates cannot write any more, but can read until they expire. " +
		"Everything else that is removed is shown first."
	return d.form("Revoke access", intro, fields, func(f *widget.Form) tea.Cmd {
		user, groups, reason := value(f, "user"), list(value(f, "groups")), value(f, "reason")
		if value(f, "certificate")+value(f, "token") != "" {
			return d.revokeCertificates(f, reason)
		}
		if user == "" {
			f.Field("user").Problem = "a user name is needed"
			return nil
		}
		command := "kubehsm helpdesk revoke --user " + shell.Quote(user)
		for _, g := range groups {
			command += " --group " + shell.Quote(g)
		}
		if reason != "" {
			command += " --reason " + shell.Quote(reason)
		}
		return screen.Operate(screen.Operation{Title: "Revoke access", Command: command, Writes: true,
			Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
				r, err := d.Revocations.LookUp(ctx, "", user, groups, nil)
				if err == nil && r.Stop != nil && len(r.Stop.Risks) > 0 {
					var all bool
					if all, err = allTheSame(ctx, p, *r.Stop); all {
						r, err = d.Revocations.LookUp(ctx, "", user, groups, r.Stop.Risks)
					}
				}
				if err != nil {
					return screen.Report{}, err
				}
				if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: present.RevocationQuestion(r),
					Detail: strings.Join(widget.PlainSections(present.Revocation(r)), "\n")}); err != nil {
					return screen.Report{}, err
				}
				r.Reason = reason
				if err := d.Revocations.Revoke(ctx, "", &r); err != nil {
					return screen.Report{}, err
				}
				return screen.Report{Title: "Result for the access of " + user,
					Sections: append(present.Revoked(r), screen.Wrong(r.Err())...)}, nil
			}})
	})
}

// allTheSame asks whether the risks of a revocation are accepted, as --accept-risk does.
func allTheSame(ctx context.Context, p hsm.Prompter, stop desk.Stop) (bool, error) {
	return p.Confirm(ctx, hsm.ConfirmPrompt{Question: "Revoke anyway?", Detail: strings.Join(stop.Refusals, "\n")})
}

// sought is what the form says of the certificates to revoke, and the command's flags for that. It is wrong if
// a field then has a problem.
func sought(f *widget.Form) (s desk.Sought, flags string) {
	s.User, s.Token, s.Fingerprint = value(f, "user"), value(f, "token"), value(f, "certificate")
	if path := s.Fingerprint; path != "" && (desk.Sought{Fingerprint: path}).Check() != nil {
		var err error
		if s.PEM, err = screen.ReadFile(screen.Path(path)); err != nil {
			f.Field("certificate").Problem = "neither the SHA-256 of a certificate nor a file: " + ui.Message(err)
			return s, ""
		}
		for _, other := range []string{"user", "token"} {
			if value(f, other) != "" {
				f.Field(other).Problem = "leave it empty with a certificate's file"
			}
		}
		return desk.Sought{PEM: s.PEM}, " --certificate " + shell.Quote(screen.Path(path))
	}
	if err := s.Check(); err != nil {
		f.Field("token").Problem = ui.Message(err)
	}
	for _, flag := range [][2]string{{"fingerprint", s.Fingerprint}, {"token", s.Token}, {"user", s.User}} {
		if flag[1] != "" {
			flags += " --" + flag[0] + " " + shell.Quote(flag[1])
		}
	}
	return s, flags
}

// revokeCertificates revokes the certificates that the form names, and takes away nothing else.
func (d work) revokeCertificates(f *widget.Form, reason string) tea.Cmd {
	which, flags := sought(f)
	if f.FirstProblem() {
		return nil
	}
	command := "kubehsm helpdesk revoke" + flags
	if reason != "" {
		command += " --reason " + shell.Quote(reason)
	}
	return screen.Operate(screen.Operation{Title: "Revoke certificates", Command: command, Writes: true,
		Run: func(ctx context.Context, p hsm.Prompter) (screen.Report, error) {
			stop, err := d.Stopping.Find(ctx, "", which, nil)
			if err == nil && len(stop.Risks) > 0 {
				var all bool
				if all, err = allTheSame(ctx, p, stop); all {
					stop, err = d.Stopping.Find(ctx, "", which, stop.Risks)
				}
			}
			if err == nil {
				err = stop.Err()
			}
			if err != nil {
				return screen.Report{}, err
			}
			if err := screen.Sure(ctx, p, hsm.ConfirmPrompt{Question: "Revoke these?",
				Detail: strings.Join(widget.PlainSections(present.Stop(stop)), "\n")}); err != nil {
				return screen.Report{}, err
			}
			if err := d.Stopping.Stop(ctx, "", &stop, reason); err != nil {
				return screen.Report{}, err
			}
			if err := stop.Pending(); err != nil {
				return screen.Report{Title: "The revocation is filed",
					Sections: append(present.Stopped(stop), screen.Wrong(err)...)}, nil
			}
			return screen.Report{Title: "The certificates are revoked", Sections: present.Stopped(stop)}, nil
		}})
}
