package local

// actArg makes the test binary a controller that is to be killed.
const actArg = "act"

func act([]string) int { return 0 }
