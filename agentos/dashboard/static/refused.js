// What cannot be had, in words for people.

export class Refused extends Error {
  constructor(status, answer) {
    super(answer.error || `The server answered ${status}.`);
    this.status = status;
    this.hint = answer.hint || "";
    this.command = answer.command || "";
  }
}
