package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nouns are the words by which help and documents name what a reader puts in their place. A word
// that is no noun (OLD, when), or a type of Go (string), does not name what that is.
var nouns = words(`address architecture array beefile bucket case cases command core date difference digest dir direction
	directory duration environment environments events file format host hosts id image key line memory method
	mode model name node number package parameters path pattern platform port prefix program rank rate
	reference remote results rule run seed shell site sites size source states step steps store study suite
	target template time topic url user value values version volume`)

// fixed are capitals in command lines that stand for themselves.
var fixed = words(`HOME GITHUB_STEP_SUMMARY XDG_RUNTIME_DIR TERM OMP_NUM_THREADS`)

func words(list string) map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields(list) {
		all[w] = true
	}
	return all
}

var (
	shellWord   = regexp.MustCompile(`[^\s\[\]=:,|@()'"<>;/{}]+`)
	placeholder = regexp.MustCompile(`^[A-Z][A-Z_]*$`)
	assigned    = regexp.MustCompile(`^=[^A-Z\s]`) // to a variable, and no placeholder
)

// used are the nouns that placeholders were found to have.
func used(text string, into map[string]bool) {
	for _, w := range shellWord.FindAllString(text, -1) {
		for part := range strings.SplitSeq(strings.ToLower(strings.TrimRight(w, ".")), "_") {
			into[part] = true
		}
	}
}

// unknown returns the placeholders of a text that are no nouns: its words in capitals.
func unknown(text string) (all []string) {
	for _, at := range shellWord.FindAllStringIndex(text, -1) {
		w := strings.TrimRight(text[at[0]:at[1]], ".")
		if !placeholder.MatchString(w) || fixed[w] || assigned.MatchString(text[at[1]:]) {
			continue
		}
		for part := range strings.SplitSeq(strings.ToLower(w), "_") {
			if !nouns[part] {
				all = append(all, w)
				break
			}
		}
	}
	return all
}

// TestPlaceholdersAreNouns: those of arguments, of the values of flags, and of commands that
// documents show.
func TestPlaceholdersAreNouns(t *testing.T) {
	found, needed := 0, map[string]bool{}
	complain := func(where string, bad []string) {
		for _, w := range bad {
			t.Errorf("%s: %q is no noun that says what goes in its place: see the list in this test", where, w)
		}
	}
	walkCommands(cli.Commands(), func(c *cobra.Command) {
		_, arguments, _ := strings.Cut(c.Use, " ")
		complain(c.CommandPath(), unknown(arguments))
		used(arguments, needed)
		for line := range strings.Lines(c.Long) {
			if strings.HasPrefix(line, "  ") && strings.Contains(line, "bee ") {
				complain(c.CommandPath(), unknown(line))
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			value, _ := pflag.UnquoteUsage(f)
			if value == "" {
				return
			}
			found++
			used(value, needed)
			if strings.ToLower(value) != value {
				complain(c.CommandPath()+" --"+f.Name, unknown(value))
			} else if !nouns[value] {
				complain(c.CommandPath()+" --"+f.Name, []string{value})
			}
		})
	})
	command := regexp.MustCompile("(?m)`(bee [^`\n]*)`|^    +((?:[^ \n]+ )*bee .*)$")
	for file, text := range documents(t) {
		if strings.HasPrefix(file, "docs/adr/") || file == "CHANGELOG.md" {
			continue // they describe what was
		}
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			found++
			line, _, _ := strings.Cut(m[1]+m[2], " # ")
			complain(file+": "+line, unknown(line))
			used(line, needed)
		}
	}
	if found < 300 {
		t.Errorf("only %d were found", found)
	}
	for noun := range nouns {
		if !needed[noun] {
			t.Errorf("no placeholder is %q any more: remove it from the list", noun)
		}
	}
}

// TestUnknownPlaceholders: nouns, variables of a shell and flags are none.
func TestUnknownPlaceholders(t *testing.T) {
	for text, want := range map[string]string{
		"bee stop RUN [RUN...]": "", "bee cp FROM TO": "FROM TO", "convert OLD": "OLD", "--set NAME=VALUES": "",
		`bee run -e A=1 -e B= "$HOME"`: "B", "bee plan job.yaml": "", "HOST:PATH[:ro]": "", "--node N": "N", "line=135MB/s": "", `(\S+)`: "",
	} {
		if got := strings.Join(unknown(text), " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
