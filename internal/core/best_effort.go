package core

// BestEffort marks a call whose failure changes nothing: the code after it works either
// way, and the comment beside it names the reason. Neither a user nor a later step needs
// the error. As the call is an argument, it is made at once: in a defer or go statement it
// belongs in a function literal.
func BestEffort(...any) {}
