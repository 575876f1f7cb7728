// Answers with getters that count how often they are read.
let looks = 0;
const count = () => (looks += 1);
const changing = () => ({
  get id() { return `${count()}`; },
  get kind() { return ['miss', 'reuse', 'partial', 'refused'][count() % 4]; },
  get reusedTokens() { return count(); },
  get prefillTokens() { return count(); },
  get resumeSeconds() { return count(); },
  get prefillSeconds() { return count(); },
  get ttftSeconds() { return count(); },
  get storedBytes() { return count(); },
  get evicted() { return [`${count()}`]; },
  get bytes() { return count(); },
});
export const defaults = {};
export function createCache() {
  return { submit: changing, entries: () => [changing(), changing()], get usedBytes() { return count(); } };
}
