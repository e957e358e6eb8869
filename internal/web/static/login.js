// Stores the key of this process for the pages of this origin, and opens them. The address
// with the secret leaves the history.
localStorage.setItem('bee-key', document.querySelector('meta[name=bee-key]').content);
location.replace('./');
