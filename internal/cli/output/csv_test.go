package output

import "testing"

// TestCSVTexts are no formulas of a spreadsheet, and numbers stay as they are.
func TestCSVTexts(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "a=1": "a=1", "-0.5": "-0.5", "+3": "+3", "-1e-3": "-1e-3", "x\x1b[2J": `x\x1b[2J`,
		`=HYPERLINK("http://x")`: `'=HYPERLINK("http://x")`, "+1+1": "'+1+1", "-2+3": "'-2+3", "@SUM(A1)": "'@SUM(A1)", "-O3": "'-O3",
	} {
		if got := CSVText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
