//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/kubehsm/kubehsm/test/term"
)

// show is everything that a picture must be able to draw.
const show = `printf '\033[1;32m✓\033[0m bold \033[2mfaint\033[0m \033[4mline\033[0m \033[7m inverse \033[0m <&">\n'
printf '╭──────────┬─╮\n│ 証明書 é │ │\n├━━━━━━━━━━┼─┤\n╰──────────┴─╯\n'
printf '\033[48;2;40;60;120m\033[38;5;214m▀▄█▌▐ 256 \033[0m\033[3;31mitalic\033[0m'`

func picture(t *testing.T) string {
	t.Helper()
	s := term.Run(t, term.Options{Path: "/bin/sh", Args: []string{"-c", show}, Env: []string{"PATH=" + os.Getenv("PATH")},
		Columns: 50, Rows: 12})
	if code := s.Exit(); code != 0 {
		t.Fatal("exit code", code)
	}
	return render(s.Frame().Crop(), `a "show" & more`)
}

func TestRenderIsXML(t *testing.T) {
	svg := picture(t)
	if file := os.Getenv("PICTURE_OUT"); file != "" { // to look at
		if err := os.WriteFile(file, []byte(svg), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var text strings.Builder
	in := false
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			in = token.Name.Local == "text"
		case xml.EndElement:
			if in {
				text.WriteString(" ")
			}
			in = false
		case xml.CharData:
			if in {
				text.Write(token)
			}
		}
	}
	for _, want := range []string{`a "show" & more`, `<&">`, "bold", "証 明 書", "é", "italic", " inverse"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the picture's text lacks %q: %q", want, text.String())
		}
	}
	if strings.ContainsAny(text.String(), "─│╭█") {
		t.Error("lines are written instead of drawn")
	}
	if strings.Contains(svg, "<script") || strings.Contains(svg, "href") {
		t.Error("the picture refers to something outside")
	}
}

func TestRenderColours(t *testing.T) {
	svg := picture(t)
	for _, want := range []string{
		rgb{40, 60, 120}.String(), // 24 bit background
		basic[2].String(),         // bold green
		mix(foreground, background, 0.6).String(),
		`fill="` + foreground.String() + `" shape-rendering`, // the inverse word's paper
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("the picture lacks %s", want)
		}
	}
}
