package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode"
)

// fieldWords are banned words of documents that code may use, each with its reason.
var fieldWords = map[string]string{
	`orders`:                          "a verb of sorting",
	`odd`:                             "a kind of number",
	`(bring|brings|brought|bringing)`: "guests are brought up",
	`what is there`:                   "directories that a test looks at",
}

// bannedNames are words that no identifier has, each with what replaces it.
var bannedNames = map[string]string{
	"tell": "report, print", "tells": "reports, prints", "told": "reported", "telling": "reporting", "said": "printed, output", "patience": "timeout", "patient": "tolerant",
	"promise": "reservation", "promised": "reserved", "promises": "reservations", "way": "route, connection", "ways": "routes", "keeper": "the noun of what it makes",
	"lane": "connection", "lanes": "connections", "door": "port", "doors": "ports", "heir": "volume reuse", "heirs": "volume reuse", "heed": "accept", "witness": "record",
	"breathe": "backoff", "vigil": "keepalive", "household": "host group", "vain": "no progress", "deaf": "blocked", "shelf": "store", "insist": "retry", "anew": "again",
	"entrust": "stage", "somebody": "user", "whoever": "user",
}

// TestWordsOfCode holds comments and identifiers to the words of the field, but for tests.
func TestWordsOfCode(t *testing.T) {
	patterns := map[*regexp.Regexp]string{}
	for _, b := range banned {
		if fieldWords[b.pattern] == "" {
			patterns[regexp.MustCompile(`(?i)\b(`+b.pattern+`)\b`)] = b.instead
		}
	}
	var found []string
	note := func(file, format string, args ...any) { found = append(found, file+": "+fmt.Sprintf(format, args...)) }
	for file, f := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") {
			continue
		}
		for _, group := range f.Comments {
			for _, c := range group.List {
				for pattern, instead := range patterns {
					if word := pattern.FindString(c.Text); word != "" {
						note(file, "%q: write %s: %s", word, instead, c.Text)
					}
				}
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			id, is := n.(*ast.Ident)
			if !is {
				return true
			}
			for _, w := range wordsOf(id.Name) {
				if instead := bannedNames[w]; instead != "" {
					note(file, "the name %s has %q: write %s", id.Name, w, instead)
				}
			}
			return true
		})
	}
	slices.Sort(found)
	for _, f := range found {
		t.Error(f)
	}
}

// moods are names of files that say nothing of what is in them.
var moods = []string{
	"again", "anew", "aside", "away", "behind", "beside", "elsewhere", "further", "gone", "heard", "heed", "held", "inherit", "insist",
	"left", "needless", "pass", "said", "standing", "straight", "unread", "vain", "ways", "without",
}

// TestFilesHaveNouns: a file is named after what it contains.
func TestFilesHaveNouns(t *testing.T) {
	for file := range goFiles(t) {
		name := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), ".go"), "_test")
		if slices.Contains(moods, name) {
			t.Errorf("%s: name it after a noun of what it contains", file)
		}
	}
}

// TestDocCommentsBeginWithTheName: as Go's own do, so that they are found and read alike.
func TestDocCommentsBeginWithTheName(t *testing.T) {
	found := 0
	check := func(file string, name *ast.Ident, doc *ast.CommentGroup) {
		text := strings.TrimSpace(doc.Text())
		if text == "" { // none, or a directive
			return
		}
		found++
		for _, article := range []string{"A ", "An ", "The "} {
			text = strings.TrimPrefix(text, article)
		}
		rest, is := strings.CutPrefix(text, name.Name)
		if next := []rune(rest + " ")[0]; !is || unicode.IsLetter(next) || unicode.IsDigit(next) || next == '_' {
			t.Errorf("%s: the comment of %s does not begin with that name", file, name.Name)
		}
	}
	for file, f := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				check(file, d.Name, d.Doc)
			case *ast.GenDecl:
				if d.Lparen.IsValid() || len(d.Specs) != 1 { // the comment of a group is about its subject
					continue
				}
				switch s := d.Specs[0].(type) {
				case *ast.TypeSpec:
					check(file, s.Name, d.Doc)
				case *ast.ValueSpec:
					check(file, s.Names[0], d.Doc)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no comment was found")
	}
}

// TestFieldWordsAreBanned: an exception to a pattern that is gone goes as well.
func TestFieldWordsAreBanned(t *testing.T) {
	for pattern := range fieldWords {
		if !slices.ContainsFunc(banned, func(b struct{ pattern, instead string }) bool { return b.pattern == pattern }) {
			t.Errorf("%q is an exception to no banned word", pattern)
		}
	}
}

// goFiles are all Go files of ours, parsed, by their paths below the repository.
func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parsed parses them once for all tests, which only read them.
var parsed = sync.OnceValues(func() (map[string]*ast.File, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	files := map[string]*ast.File{}
	for _, top := range []string{"cmd", "docs", "hack", "internal", "test"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, path)
			switch {
			case err != nil:
				return err
			case e.IsDir() || !strings.HasSuffix(path, ".go"):
				return nil
			}
			files[rel], err = parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return files, nil
})

// wordsOf returns the words of a name, in lower case.
func wordsOf(name string) (words []string) {
	letters, from := []rune(name), 0
	for i := 1; i <= len(letters); i++ {
		switch {
		case i < len(letters) && !unicode.IsUpper(letters[i]):
			continue
		case i < len(letters) && unicode.IsUpper(letters[i-1]) && (i+1 == len(letters) || unicode.IsUpper(letters[i+1])):
			continue // within an abbreviation
		}
		words = append(words, strings.ToLower(string(letters[from:i])))
		from = i
	}
	return words
}
