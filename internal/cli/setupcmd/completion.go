package setupcmd

import (
	"io"

	"github.com/spf13/cobra"
)

// bashWords splits a command line where the package bash-completion is not there, which has a
// function of that name. As for cobra's call of it, neither = nor : ends a word.
const bashWords = `# Without the package bash-completion:
declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref()
{
    local line=${COMP_LINE:0:COMP_POINT}
    read -r -a words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then
        words+=("")
    fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
}

`

// CompleteBashAlone changes the command `completion bash`: its script works without the package
// bash-completion, too.
func CompleteBashAlone(root *cobra.Command) {
	c, _, err := root.Find([]string{"completion", "bash"})
	if err != nil {
		panic(err) // cobra has it
	}
	c.RunE = func(c *cobra.Command, _ []string) error {
		plain, err := c.Flags().GetBool("no-descriptions")
		if err != nil {
			return err
		}
		out := c.OutOrStdout()
		if _, err := io.WriteString(out, bashWords); err != nil {
			return err
		}
		return c.Root().GenBashCompletionV2(out, !plain)
	}
}
