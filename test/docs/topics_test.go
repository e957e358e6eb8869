package docs

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/cli"
)

// TestTopics: each topic has its page, and a name that is its own.
func TestTopics(t *testing.T) {
	pages := documents(t)
	names, files := map[string]bool{}, map[string]bool{}
	for _, c := range cli.Commands().Commands() {
		names[c.Name()] = true
	}
	for _, topic := range docs.Topics() {
		if pages["docs/"+topic.File] == "" {
			t.Errorf("%s has no page %s", topic.Name, topic.File)
		}
		if names[topic.Name] || files[topic.File] {
			t.Errorf("%s is the name of a command or of two topics, or its page %s that of two", topic.Name, topic.File)
		}
		names[topic.Name], files[topic.File] = true, true
		if len(topic.Short) > 60 || strings.HasSuffix(topic.Short, ".") {
			t.Errorf("%s: what it is about has no place in a list: %q", topic.Name, topic.Short)
		}
	}
	for _, page := range regexp.MustCompile(`bee help ([a-z-]+)`).FindAllStringSubmatch(strings.Join(values(pages), "\n"), -1) {
		if !names[page[1]] && page[1] != "help" {
			t.Errorf("a page shows `bee help %s`, which is no topic and no command", page[1])
		}
	}
}

func values(pages map[string]string) (all []string) {
	for _, text := range pages {
		all = append(all, text)
	}
	return all
}

// ownVariables are those by which processes of BEE speak with each other.
var ownVariables = map[string]string{
	"BEE_NODE_SOCKET":    "the launch agent's way to its node",
	"BEE_PREFIX":         "marks processes that native runs have started",
	"BEE_LEASE":          "marks nodes of provider local",
	"BEE_GUEST_IMAGE":    "a label of guest images",
	"BEE_GUEST_INIT":     "of the first process of a guest",
	"BEE_GUEST_ROOT":     "of the agent in a guest",
	"BEE_GUEST_ERROR":    "of the agent in a guest",
	"BEE_RESERVATION":    "marks what a process has reserved",
	"BEE_TASK":           "marks the task of a rank",
	"BEE_LIMIT_CORES":    "of a container's first process",
	"BEE_LIMIT_CORE_SET": "of a container's first process",
	"BEE_LIMIT_MEMORY":   "of a container's first process",
	"BEE_TERM_IS_NOTICE": "of a container's first process",
	"BEE_RUN_":           "of the script that builds a guest image",
	"BEE_END_OF_JOB":     "ends the script of a job with several copies",
	"BEE_END_OF_START":   "ends the script of a job with several copies",
	"BEE_BINARY_":        "begins BEE_BINARY_AMD64 and BEE_BINARY_ARM64",
}

// TestEveryVariableIsDocumented: the page about the environment has each variable of BEE's in the
// code, but for those between its own processes.
func TestEveryVariableIsDocumented(t *testing.T) {
	page := documents(t)["docs/reference/environment.md"]
	name := regexp.MustCompile(`\bBEE_[A-Z0-9_]+`)
	found := map[string]bool{}
	for file, f := range goFiles(t) {
		if strings.HasSuffix(file, "_test.go") || !strings.HasPrefix(file, "internal/") || testOnly.MatchString(file) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, is := n.(*ast.BasicLit); is && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				for _, v := range name.FindAllString(text, -1) {
					found[v] = true
					if ownVariables[v] == "" && !strings.Contains(page, "`"+v+"`") {
						t.Errorf("%s has %s, which docs/reference/environment.md does not name", file, v)
					}
				}
			}
			return true
		})
	}
	for v := range ownVariables {
		if !found[v] {
			t.Errorf("the code has no %s any more", v)
		}
	}
	for _, m := range regexp.MustCompile("`(BEE_[A-Z0-9_]+)`").FindAllStringSubmatch(page, -1) {
		if v := m[1]; !found[v] && !strings.HasSuffix(v, "_") && !strings.HasPrefix(v, "BEE_BINARY_") {
			t.Errorf("docs/reference/environment.md names %s, which the code does not have", v)
		}
	}
}

// testOnly are packages that only tests use.
var testOnly = regexp.MustCompile(`^internal/(testkit|driver/drivertest|control/controltest)/`)
