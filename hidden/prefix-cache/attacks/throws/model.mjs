// Throws what has no text, wherever it can.
export const defaults = {};
const nasty = { toString() { throw nasty; }, get message() { throw nasty; } };
export function createCache() {
  return { submit() { throw nasty; }, entries() { throw nasty; }, get usedBytes() { throw nasty; } };
}
