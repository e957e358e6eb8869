package docs

import (
	"iter"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// longestSentence is how many words a sentence may have, and longestMean what those of a page
// may not reach.
const (
	longestSentence = 30
	longestMean     = 18
)

// banned are words of no field that a reader knows, each with what replaces it.
var banned = []struct{ pattern, instead string }{
	{`heed(s|ed|ing)?`, "accept, obey"},
	{`witness(es)?`, "proof, record"},
	{`breath(e|es|ing)`, "backoff"},
	{`orders`, "launch spec"},
	{`entrust(s|ed|ing)?`, "stage"},
	{`heirs?`, "volume reuse"},
	{`doors?`, "port, interface"},
	{`lanes?`, "connection"},
	{`vigil`, "keepalive"},
	{`household`, "group of nodes"},
	{`said`, "printed, reported"},
	{`vain`, "no progress"},
	{`odd`, "unusual"},
	{`shelf|shelves`, "store"},
	{`somebody|nobody's|whoever|whomever|himself`, "a user, a process"},
	{`anew`, "again"},
	{`(tell|tells|told|telling|tale)`, "report, print, show"},
	{`(come|comes|came|coming|bring|brings|brought|bringing|go|goes|went) home`, "collect, transfer"},
	{`at home`, "on the submitting machine"},
	{`(go|goes|going|went|gone) on`, "continue"},
	{`pass(es|ed|ing)? (it |them )?over`, "skip"},
	{`held for lost|hold(s|ing)? .{0,20}for lost`, "declared lost"},
	{`insist(s|ed|ing)?`, "retry"},
	{`patien(t|tly|ce)`, "waits"},
	{`(give|gives|given|giving|gave) (it |them |hosts |its hosts )?back`, "release"},
	{`let(s|ting)? go`, "release"},
	{`(saves?|saved|saving) (itself|themselves)`, "writes a checkpoint"},
	{`save itself`, "write a checkpoint"},
	{`in (its|the|their) midst|in the midst`, "during"},
	{`comes? to rest`, "ends"},
	{`straight (from|to|between|there|here)`, "direct transfer"},
	{`kin`, "others"},
	{`by turns`, "alternately"},
	{`what is there`, "existing files"},
	{`lies? (there|here|in|on|beside|below)`, "is stored"},
	{`(bring|brings|brought|bringing)`, "copy, collect, transfer"},
	{`stands? still|stood still`, "is halted"},
	{`hand(s|ed|ing)? (it |them )?over`, "send"},
	{`look(s|ed|ing)? after`, "manage"},
	{`take(s|n)? in|took in`, "import"},
	{`carr(y|ies|ied) on`, "continue"},
	{`vouch(es|ed)?`, "authenticate"},
	{`deaf|hears? of`, "blocked, is notified"},
}

// allowed are the banned words that a document or help may use, each with its reason.
var allowed = map[string]map[string]string{}

// A passage is a run of text in which sentences are counted: a paragraph, an item of a
// list, a cell of a table, a help text.
type passage struct {
	where, text string
}

func TestSentencesAreShort(t *testing.T) {
	for _, p := range passages(t) {
		for sentence, words := range sentences(p.text) {
			if words > longestSentence {
				t.Errorf("%s: a sentence has %d words, at most %d are allowed: %s", p.where, words, longestSentence, sentence)
			}
		}
	}
}

var (
	sentenceEnd = regexp.MustCompile(`[.!?]["')*]*\s+`)
	anyWord     = regexp.MustCompile(`[\pL\pN]`)
)

// sentences are those of a passage, each with the number of its words.
func sentences(text string) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for _, sentence := range sentenceEnd.Split(text+" ", -1) {
			words := 0
			for _, w := range strings.Fields(sentence) {
				if anyWord.MatchString(w) {
					words++
				}
			}
			if words > 0 && !yield(sentence, words) {
				return
			}
		}
	}
}

// TestMeanOfSentences bounds the mean length of the sentences of each page. Headings and cells of
// tables count where they are sentences.
func TestMeanOfSentences(t *testing.T) {
	sum, count := map[string]int{}, map[string]int{}
	for _, p := range passages(t) {
		if strings.HasSuffix(p.where, ".md") && sentenceEnd.MatchString(p.text+" ") {
			for _, n := range sentences(p.text) {
				sum[p.where] += n
				count[p.where]++
			}
		}
	}
	for page, n := range count {
		if mean := float64(sum[page]) / float64(n); mean >= longestMean {
			t.Errorf("%s: its sentences have %.1f words in the mean, fewer than %d are allowed", page, mean, longestMean)
		}
	}
	if len(count) < 100 {
		t.Errorf("only %d pages have sentences", len(count))
	}
}

func TestWordsOfTheField(t *testing.T) {
	for _, b := range banned {
		pattern := regexp.MustCompile(`(?i)\b(` + b.pattern + `)\b`)
		for _, p := range passages(t) {
			file, _, _ := strings.Cut(p.where, ":")
			for _, found := range pattern.FindAllString(p.text, -1) {
				if _, ok := allowed[file][strings.ToLower(found)]; !ok {
					t.Errorf("%s: %q: write %s: %s", p.where, found, b.instead, p.text)
				}
			}
		}
	}
}

// TestAllowedWordsAreUsed: an exception that nothing needs any more goes.
func TestAllowedWordsAreUsed(t *testing.T) {
	used := map[string]string{}
	for _, p := range passages(t) {
		file, _, _ := strings.Cut(p.where, ":")
		used[file] += strings.ToLower(p.text) + "\n"
	}
	for file, words := range allowed {
		for word, reason := range words {
			if reason == "" || !strings.Contains(used[file], word) {
				t.Errorf("%s: %q is allowed without reason, or not there", file, word)
			}
		}
	}
}

// passages returns the text of all documents and of all help.
func passages(t *testing.T) (all []passage) {
	t.Helper()
	for file, text := range documents(t) {
		all = append(all, inDocument(file, text)...)
	}
	walkCommands(cli.Commands(), func(c *cobra.Command) {
		where := c.CommandPath() + " --help"
		all = append(all, passage{where, prose(c.Short)})
		for paragraph := range strings.SplitSeq(withoutExamples(c.Long), "\n\n") {
			all = append(all, passage{where, prose(paragraph)})
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			all = append(all, passage{where + ": --" + f.Name, prose(usage)})
		})
	})
	return all
}

func walkCommands(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() && s.Name() != "completion" {
			walkCommands(s, visit)
		}
	}
}

func withoutExamples(help string) string {
	return regexp.MustCompile(`(?m)^  .*$`).ReplaceAllString(help, "")
}

func inDocument(file, text string) (all []passage) {
	item := regexp.MustCompile(`^\s*([*-]|\d+\.) `)
	var open []string
	flush := func() {
		if len(open) > 0 {
			all = append(all, passage{file, prose(strings.Join(open, "\n"))})
		}
		open = nil
	}
	fenced, blank := false, true
	for line := range strings.Lines(generated.ReplaceAllString(text, "")) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			flush()
			fenced = !fenced
		case fenced:
		case strings.TrimSpace(line) == "":
			flush()
		case strings.HasPrefix(line, "    ") && blank && len(open) == 0: // code
			continue
		case strings.HasPrefix(line, "|"):
			flush()
			for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, " "), "|") {
				all = append(all, passage{file, prose(cell)})
			}
		case strings.HasPrefix(line, "#"), item.MatchString(line):
			flush()
			open = append(open, item.ReplaceAllString(strings.TrimLeft(line, "# "), ""))
		default:
			open = append(open, line)
		}
		blank = strings.TrimSpace(line) == ""
	}
	flush()
	return all
}

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
	generated  = regexp.MustCompile(`(?s)<!-- generated.*?: end -->`)
	comment    = regexp.MustCompile(`<!--.*?-->`)
)

// prose is a text without code, which counts as one word, and without the targets of links.
func prose(text string) string {
	text = strings.Join(strings.Fields(comment.ReplaceAllString(text, "")), " ")
	return strings.TrimSpace(linkTarget.ReplaceAllString(inlineCode.ReplaceAllString(text, "CODE"), "$1"))
}
