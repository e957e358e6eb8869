package hostile

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// TestTextsOfAJobOnAPage: what a job is called, prints and leaves is shown on its page, and
// is neither markup nor a control character there. A long line leaves the page small.
func TestTextsOfAJobOnAPage(t *testing.T) {
	const evil = "<script>evil()</script>"
	b, job := busyboxJob(t, "workdir: /work", "labels: {evil: '"+evil+"'}", "env: {EVIL: '\"><img src=x onerror=evil()>'}", `run: |
  touch '<svg onload=evil()>.dat'
  head -c 10000000 /dev/zero | tr '\0' x
  printf '\n</pre>`+evil+`\033[2J\033]0;title\007\342\200\256live\n'
  printf '`+"````"+`\n# heading [evil](https://evil.example) @evil\n'
  exit 3`, "outputs: ['*.dat']")
	if r := b.Try("run", "-q", job); r.Code != 3 {
		t.Fatalf("%d: %.2000s", r.Code, r.Stderr)
	}
	b.Must("report", "small", "-o", "small.html")
	page := b.Read("small.html")
	if info, err := os.Stat(b.Work + "/small.html"); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	var texts strings.Builder
	for d := xml.NewDecoder(strings.NewReader(page)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			for _, a := range token.Attr {
				if strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "href" || a.Name.Local == "style" {
					t.Errorf("%s has %s=%q", token.Name.Local, a.Name.Local, a.Value)
				}
			}
			if strings.Contains(" script img a iframe object embed link base form input ", " "+token.Name.Local+" ") {
				t.Errorf("there is an element %s", token.Name.Local)
			}
		case xml.CharData:
			texts.Write(token)
		}
	}
	for _, want := range []string{"evil='" + evil, "</pre>" + evil + `\x1b[2J\x1b]0;title\a\u202elive`, "<svg onload=evil()>.dat", "exit code 3", `"><img src=x onerror=evil()>`} {
		if !strings.Contains(texts.String(), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if strings.ContainsAny(page, "\x1b\a\u202e") || len(page) > 200_000 {
		t.Errorf("control characters, or %d bytes", len(page))
	}
	markdown := b.Must("report", "--markdown", "small")
	if !strings.Contains(markdown, "\n`````text\n") || strings.Contains(markdown, "\x1b") || len(markdown) > 200_000 {
		t.Errorf("the log of %d bytes can end its block:\n%.3000s", len(markdown), markdown)
	}
	if r := b.Try("report", "small", "-o", "nowhere/small.html"); r.Code == 0 || !strings.Contains(r.Stderr, "nowhere") {
		t.Errorf("a directory that is not there: %+v", r)
	}
}
