/* A library without any function, which is enough for a dlopen to succeed. */
int nothing;
