package spec

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

// mostAliases bounds what plain values may grow to: each alias is a copy.
const mostAliases = 20

// Tree reads a file of another tool as plain values: mappings, lists and scalars. It has the
// bounds of a Beefile. The error, of kind Invalid, holds what is wrong.
func Tree(file string, data []byte) (map[string]any, error) {
	d := newDecoder(file, data)
	if d.root(data) == nil || len(d.report.problems) > 0 {
		return nil, asError(d.report.problems)
	}
	aliases := 0
	for _, t := range lexer.Tokenize(string(data)) {
		if t.Type == token.AliasType {
			aliases++
		}
		if aliases > mostAliases {
			d.report.problem(t, "write the values themselves", "a file that is converted has at most %d aliases", mostAliases)
			return nil, asError(d.report.problems)
		}
	}
	tree := map[string]any{}
	if err := yaml.Unmarshal(unmarked(data), &tree); err != nil {
		d.syntax(err)
		return nil, asError(d.report.problems)
	}
	return tree, nil
}
